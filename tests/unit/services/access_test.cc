#include <grp.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "core/net/certificate.h"
#include "core/train/unique_fd.h"
#include "gdfd/services/onlookers.h"
#include "proto/control.grpc.pb.h"
#include "tests/unit/services/service_node.h"

namespace gdf::services {
namespace {

namespace v1 = control::v1;
using absl::StatusCode;

constexpr uid_t kNobody = 65534;

// Connects to the control socket as another user. Linux keeps credentials by thread, and the kernel
// tells the server those of the connecting one.
int ConnectAs(const ServiceNode& node, uid_t uid, gid_t gid) {
  int fd = -1;
  std::thread([&] {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    node.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
    const int made = socket(AF_UNIX, SOCK_STREAM, 0);
    if (syscall(SYS_setresgid, gid, gid, gid) != 0 || syscall(SYS_setresuid, uid, uid, uid) != 0)
      return;
    if (connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0) fd = made;
  }).join();
  REQUIRE(fd >= 0);
  return fd;
}

std::unique_ptr<v1::Control::Stub> StubAs(const ServiceNode& node, uid_t uid, gid_t gid) {
  return v1::Control::NewStub(
      grpc::CreateInsecureChannelFromFd("gdfd", ConnectAs(node, uid, gid)));
}

template <typename Request, typename Reply>
grpc::Status Call(v1::Control::Stub& stub,
                  grpc::Status (v1::Control::Stub::*method)(grpc::ClientContext*, const Request&,
                                                            Reply*),
                  const Request& request = {}) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  Reply reply;
  return (stub.*method)(&context, request, &reply);
}

v1::CreateNetworkRequest Named(const std::string& name) {
  v1::CreateNetworkRequest request;
  request.set_name(name);
  return request;
}

TEST_CASE("Other users may look at a node, not change it") {
  if (geteuid() != 0) {
    WARN("skipped: only root can take another user's part");
    return;
  }
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto stub = StubAs(n1, kNobody, kNobody);
  CHECK(Call(*stub, &v1::Control::Stub::Status).ok());
  CHECK(Call(*stub, &v1::Control::Stub::ListNodes).ok());
  CHECK(Call(*stub, &v1::Control::Stub::ListJobs).ok());
  const grpc::Status refused = Call(*stub, &v1::Control::Stub::CreateNetwork, Named("my-net"));
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(refused.error_message().find("operator_group") != std::string::npos);
  for (const auto& status :
       {Call(*stub, &v1::Control::Stub::Join), Call(*stub, &v1::Control::Stub::Leave),
        Call(*stub, &v1::Control::Stub::CreateInvite), Call(*stub, &v1::Control::Stub::ListInvites),
        Call(*stub, &v1::Control::Stub::RevokeInvite), Call(*stub, &v1::Control::Stub::ChangeNode),
        Call(*stub, &v1::Control::Stub::RotateKey),
        Call(*stub, &v1::Control::Stub::Submit), Call(*stub, &v1::Control::Stub::CancelJob),
        Call(*stub, &v1::Control::Stub::RollBackJob), Call(*stub, &v1::Control::Stub::RemoveCheckpoint)}) {
    CHECK(status.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  }
  grpc::ClientContext upload_context, export_context, generate_context, backup_context;
  v1::UploadReply upload_reply;
  CHECK(stub->Upload(&upload_context, &upload_reply)->Finish().error_code() ==
        grpc::StatusCode::PERMISSION_DENIED);
  CHECK(stub->Export(&export_context, {})->Finish().error_code() ==
        grpc::StatusCode::PERMISSION_DENIED);
  CHECK(stub->Generate(&generate_context, {})->Finish().error_code() ==
        grpc::StatusCode::PERMISSION_DENIED);
  CHECK(stub->Backup(&backup_context, {})->Finish().error_code() ==
        grpc::StatusCode::PERMISSION_DENIED);
  CHECK_FALSE(loop.On([&] { return n1.member().state().has_network(); }));
}

TEST_CASE("Users who may only look keep nobody out with connections that they hold") {
  if (geteuid() != 0) {
    WARN("skipped: only root can take another user's part");
    return;
  }
  LoopThread loop;
  ServiceNode n1(loop, 1);
  std::vector<train::UniqueFd> held;
  for (int i = 0; i < Onlookers::kMostOfAUser; ++i) {
    held.emplace_back(ConnectAs(n1, kNobody, kNobody));
  }
  // gRPC's server speaks first (RFC 7540, section 3.5), so a connection that ends without a word was
  // refused.
  const auto refused = [](int fd) {
    char byte;
    return read(fd, &byte, 1) == 0;
  };
  const train::UniqueFd one_more(ConnectAs(n1, kNobody, kNobody));
  CHECK(refused(one_more.get()));
  CHECK_FALSE(refused(held.back().get()));
  // Another user, and the operator.
  CHECK(Call(*StubAs(n1, kNobody - 1, kNobody - 1), &v1::Control::Stub::Status).ok());
  CHECK(Call(*StubAs(n1, 0, 0), &v1::Control::Stub::Status).ok());
  // Room comes back with the end of a connection.
  held.pop_back();
  for (bool admitted = false; !admitted;) {  // as soon as the end is noticed
    const train::UniqueFd again(ConnectAs(n1, kNobody, kNobody));
    admitted = !refused(again.get());
  }
  // All other users together.
  for (uid_t user = 1; user <= 10; ++user) {
    for (int i = 0; i < 8; ++i) held.emplace_back(ConnectAs(n1, user, user));
  }
  CHECK(refused(held.back().get()));
  CHECK(Call(*StubAs(n1, 0, 0), &v1::Control::Stub::Status).ok());
}

TEST_CASE("Members of the operator group may change things") {
  if (geteuid() != 0) {
    WARN("skipped: only root can take another user's part");
    return;
  }
  const group* daemon = getgrnam("daemon");
  REQUIRE(daemon != nullptr);
  LoopThread loop;
  config::NodeConfig config;
  config.operator_group = "daemon";
  ServiceNode n1(loop, 1, config);
  const grpc::Status refused =
      Call(*StubAs(n1, kNobody, kNobody), &v1::Control::Stub::CreateNetwork, Named("a"));
  CHECK(refused.error_code() == grpc::StatusCode::PERMISSION_DENIED);
  CHECK(refused.error_message().find("group daemon") != std::string::npos);
  CHECK(
      Call(*StubAs(n1, kNobody, daemon->gr_gid), &v1::Control::Stub::CreateNetwork, Named("my-net"))
          .ok());
}

TEST_CASE("An operator group that does not exist is refused at the start") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  n1.StopServing();
  n1.config().operator_group = "no-such-group";
  CHECK(Says(ControlServer::Start(n1.node()).status(), StatusCode::kInvalidArgument,
             "no-such-group"));
  n1.config().operator_group = "";
  n1.config().control_socket = n1.folder() + "/" + std::string(120, 'x');
  CHECK(Says(ControlServer::Start(n1.node()).status(), StatusCode::kInvalidArgument, "at most"));
  n1.config().control_socket = n1.folder() + "/new/folder/control.sock";
  n1.Serve();
  CHECK(n1.Client()->Status().ok());
  const std::string socket = n1.socket();
  n1.StopServing();
  CHECK_FALSE(PosixFileSystem().Exists(socket));
  CHECK(control::Client::Connect({.socket = socket}).value()->Status().status().code() ==
        StatusCode::kUnavailable);
}

TEST_CASE("A control socket is taken over when it is dead, and nothing else is") {
  LoopThread loop;
  ServiceNode n1(loop, 1);
  const auto refused = [&](StatusCode code, const std::string& text) {
    absl::StatusOr<std::unique_ptr<ControlServer>> second = ControlServer::Start(n1.node());
    INFO(second.status());
    CHECK(second.status().code() == code);
    CHECK(std::string(second.status().message()).find(text) != std::string::npos);
  };
  refused(StatusCode::kUnavailable, "another program answers on control socket");
  CHECK(n1.Client()->Status().ok());  // and was not disturbed
  // What lies at the path at the end is not this server's any more.
  PosixFileSystem files;
  REQUIRE(files.Remove(n1.socket()).ok());
  REQUIRE(files.WriteAtomic(n1.socket(), "precious", 0644).ok());
  n1.StopServing();
  CHECK(*files.Read(n1.socket()) == "precious");
  refused(StatusCode::kInvalidArgument, "is no socket");
  CHECK(*files.Read(n1.socket()) == "precious");
  REQUIRE(files.Remove(n1.socket()).ok());
  // A socket that a killed gdfd left behind.
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  n1.socket().copy(address.sun_path, sizeof(address.sun_path) - 1);
  const int dead = socket(AF_UNIX, SOCK_STREAM, 0);
  REQUIRE(bind(dead, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
  close(dead);
  n1.Serve();
  CHECK(n1.Client()->Status().ok());
}

TEST_CASE("Onlookers who wait do not keep operators out") {
  if (geteuid() != 0) {
    WARN("skipped: only root can take another user's part");
    return;
  }
  LoopThread loop;
  ServiceNode n1(loop, 1);
  n1.member().Found();
  REQUIRE(n1.member().Do(wire::SubmitJob{"job", "t", "name: job\n", {}, 1}).ok());
  REQUIRE(n1.member()
              .Do(wire::OpenEpoch{JobId{1}, Epoch{1}, {n1.member().id()}, n1.member().id(), "test"})
              .ok());
  // More watches than onlookers may have threads.
  std::vector<std::unique_ptr<v1::Control::Stub>> stubs;
  std::vector<std::unique_ptr<grpc::ClientContext>> contexts;
  std::vector<std::unique_ptr<grpc::ClientReader<v1::JobUpdate>>> watches;
  v1::WatchJobRequest request;
  request.set_job("j1");
  request.set_follow(true);
  for (int i = 0; i < 40; ++i) {
    stubs.push_back(StubAs(n1, kNobody, kNobody));
    contexts.push_back(std::make_unique<grpc::ClientContext>());
    watches.push_back(stubs.back()->WatchJob(contexts.back().get(), request));
  }
  CHECK(n1.Client()->Status().ok());
  CHECK(n1.Client()->CreateInvite("contributor", absl::Hours(1), 1).ok());
  for (auto& context : contexts) context->TryCancel();
  for (auto& watch : watches) {
    v1::JobUpdate update;
    while (watch->Read(&update)) {
    }
    CHECK_FALSE(watch->Finish().ok());
  }
}

struct Identity {
  explicit Identity(uint8_t number) {
    std::array<uint8_t, 32> seed{};
    seed[1] = number;
    pem = *net::MakeCertificatePem(seed);
  }
  net::CertificatePem pem;
};

TEST_CASE(
    "Remote control is off unless it is configured, and takes the certificates that the owner "
    "listed") {
  LoopThread loop;
  PosixFileSystem files;
  const Identity listed(1), second(2), unlisted(3);
  ServiceNode n1(loop, 1);
  CHECK(n1.control().remote_address().empty());
  CHECK_FALSE(files.Exists(n1.folder() + "/control-cert.pem"));
  n1.StopServing();

  n1.config().remote_control.listen = config::Endpoint{"127.0.0.1", 0};
  n1.config().remote_control.client_certificates = n1.folder() + "/clients.pem";
  CHECK(Says(ControlServer::Start(n1.node()).status(), StatusCode::kNotFound, "clients.pem"));
  REQUIRE(files.WriteAtomic(n1.folder() + "/clients.pem", "not a certificate").ok());
  CHECK(
      Says(ControlServer::Start(n1.node()).status(), StatusCode::kInvalidArgument, "clients.pem"));
  REQUIRE(files
              .WriteAtomic(n1.folder() + "/clients.pem",
                           listed.pem.certificate + second.pem.certificate)
              .ok());
  n1.Serve();
  const std::string address = n1.control().remote_address();
  REQUIRE(address.rfind("127.0.0.1:", 0) == 0);
  CHECK(address != "127.0.0.1:0");
  const std::string pin = *files.Read(n1.folder() + "/control-cert.pem");
  const auto connect = [&](const std::string& ca, const std::string& certificate,
                           const std::string& key) {
    return control::Client::Connect({.address = address,
                                     .ca_pem = ca,
                                     .certificate_pem = certificate,
                                     .key_pem = key,
                                     .timeout = absl::Seconds(10)})
        .value();
  };
  for (const Identity* identity : {&listed, &second}) {
    const auto client = connect(pin, identity->pem.certificate, identity->pem.private_key);
    const auto status = client->Status();
    INFO(status.status());
    REQUIRE(status.ok());
    CHECK(status->node_id == n1.member().id().ToString());
  }
  REQUIRE(
      connect(pin, listed.pem.certificate, listed.pem.private_key)->CreateNetwork("my-net").ok());
  CHECK(Says(connect(pin, unlisted.pem.certificate, unlisted.pem.private_key)->Status().status(),
             StatusCode::kUnavailable, address));
  CHECK(connect(pin, "", "")->Status().status().code() == StatusCode::kUnavailable);
  CHECK(Says(connect(unlisted.pem.certificate, listed.pem.certificate, listed.pem.private_key)
                 ->Status()
                 .status(),
             StatusCode::kUnavailable, "another certificate"));  // not the node that was pinned
  CHECK(Says(connect("none", listed.pem.certificate, listed.pem.private_key)->Status().status(),
             StatusCode::kInvalidArgument, "the daemon's certificate is none"));
  CHECK(Says(connect(pin, "none", listed.pem.private_key)->Status().status(),
             StatusCode::kInvalidArgument, "the certificate is none"));
  for (const std::string& key : {std::string("none"), second.pem.private_key}) {
    CHECK(Says(connect(pin, listed.pem.certificate, key)->Status().status(),
               StatusCode::kInvalidArgument, "the key is none in PEM form, or not that"));
  }

  // Somebody who speaks without TLS gets nothing.
  const auto plain =
      v1::Control::NewStub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  CHECK_FALSE(Call(*plain, &v1::Control::Stub::Status).ok());
}

}  // namespace
}  // namespace gdf::services
