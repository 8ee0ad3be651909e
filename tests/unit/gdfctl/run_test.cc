// Whole commands against a scripted daemon.
#include "gdfctl/run.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/support/fake_gdfd.h"
#include "tests/unit/gdfctl/run_command.h"

namespace gdf::ctl {
namespace {

using nlohmann::json;
using testing::FakeGdfd;
namespace v1 = control::v1;

// A job with its text in the daemon's folder.
std::string WriteJob(const FakeGdfd& gdfd) {
  PosixFileSystem files;
  REQUIRE(files.WriteAtomic(gdfd.folder() + "/a.txt", "some text to train on").ok());
  const std::string path = gdfd.folder() + "/job.yaml";
  REQUIRE(files.WriteAtomic(path, "name: test\nkind: train\nmodel:\n  gpt2: {layers: 1, heads: 1, width: 8, context: 8}\n"
                                  "data: {text: [a.txt]}\ntrain: {steps: 20, batch_size: 2, optimizer: {lr: 1e-3}}\n"
                                  "rounds: {inner_steps: 10}\n").ok());
  return path;
}

TEST_CASE("Help and version need no daemon and go to standard output") {
  CHECK(RunWith({"--version"}).out.find("gdfctl ") == 0);
  const Outcome help = RunWith({"--help"});
  CHECK(help.code == 0);
  CHECK(help.out.find("Exit codes") != std::string::npos);
  CHECK(help.err.empty());
  CHECK(RunWith({"job", "logs", "--help"}).code == 0);
}

TEST_CASE("Usage errors end with 4 and leave standard output empty") {
  for (const std::vector<std::string>& arguments : std::vector<std::vector<std::string>>{
           {}, {"no-such"}, {"job"}, {"network", "create"}, {"invite", "--uses", "0"}, {"invite", "--ttl", "5 parsecs"},
           {"job", "wait", "j1", "--timeout", "x"}, {"status", "--remote", "h:1"}, {"status", "--remote", "h:1", "--socket", "/x"},
           {"backup", "/tmp/x"}, {"status", "--no-such-flag"}}) {
    const Outcome outcome = RunWith(arguments);
    CAPTURE(arguments, outcome.err);
    CHECK(outcome.code == 4);
    CHECK(outcome.out.empty());
    CHECK(outcome.err.rfind("gdfctl: ", 0) == 0);
  }
  CHECK(RunWith({"no-such"}).err == "gdfctl: there is no command 'no-such'; see gdfctl --help\n");
  CHECK(RunWith({"--socket", "/x", "statsu"}).err == "gdfctl: there is no command 'statsu'; did you mean 'status'?; see gdfctl --help\n");
  CHECK(RunWith({"job", "--json", "lst"}).err == "gdfctl: there is no command 'job lst'; did you mean 'job list'?; see gdfctl job --help\n");
  CHECK(RunWith({"generate", "j1", "--prompt", "x", "--tokens", "0", "1"}).err ==
        "gdfctl: these were not expected: --tokens 0 1; see gdfctl --help\n");
  CHECK(RunWith({"status", "now"}).err == "gdfctl: this was not expected: now; see gdfctl --help\n");
  CHECK(RunWith({"key"}).err == "gdfctl: a command is missing: gdfctl key with one of rotate\n");
}

TEST_CASE("A remote address that is none is told before anything is tried") {
  FakeGdfd gdfd;
  PosixFileSystem files;
  const std::string pem = gdfd.folder() + "/some.pem";
  REQUIRE(files.WriteAtomic(pem, "pem").ok());
  for (const std::string address : {"example.org", "example.org:99999", "unix:/run/gdf/control.sock", "a b:1"}) {
    const Outcome outcome = RunWith({"status", "--remote", address, "--cert", pem, "--key", pem, "--ca", pem});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 4);
    CHECK(outcome.err.rfind("gdfctl: --remote: '" + address + "' is no address", 0) == 0);
  }
}

TEST_CASE("No daemon ends with 2") {
  const Outcome outcome = RunWith({"status"}, {{"GDF_SOCKET", "/nonexistent/s"}});
  CHECK(outcome.code == 2);
  CHECK(outcome.err.find("/nonexistent/s") != std::string::npos);
}

TEST_CASE("Status as text and as JSON") {
  FakeGdfd gdfd;
  gdfd.status_reply.set_node_name("alpha\x1b[2J");
  gdfd.status_reply.set_network_id("n");
  gdfd.status_reply.set_network_name("my-net");
  gdfd.status_reply.set_members(2);
  gdfd.status_reply.add_warnings("something");
  const Outcome text = RunOn(gdfd, {"status"});
  CHECK(text.code == 0);
  CHECK(text.out.find("my-net") != std::string::npos);
  CHECK(text.out.find('\x1b') == std::string::npos);
  CHECK(text.out.find("not tried yet") != std::string::npos);  // the sandbox, before the first job
  CHECK(text.out.find("which nodes are online is not known here") != std::string::npos);
  gdfd.status_reply.set_coordinator_connected(true);
  gdfd.status_reply.set_members_online(1);
  CHECK(RunOn(gdfd, {"status"}).out.find("connected to a coordinator, 1 of 2 nodes online") != std::string::npos);
  const Outcome outcome = RunOn(gdfd, {"status", "--json"});
  CHECK(outcome.err.empty());
  const json status = json::parse(outcome.out);
  CHECK(status.at("schema_version") == 1);
  CHECK(status.at("network_name") == "my-net");
  CHECK(status.at("members") == 2);
  CHECK(status.at("warnings") == json::array({"something"}));
}

TEST_CASE("A row of a table is one line for who is no terminal, however long") {
  FakeGdfd gdfd;
  v1::Job* job = gdfd.jobs_reply.add_jobs();
  job->set_id("j1");
  job->set_name(std::string(90, 'n'));
  job->set_reason("waits for " + std::string(90, 'r'));
  const Outcome outcome = RunOn(gdfd, {"job", "list"});
  CHECK(std::count(outcome.out.begin(), outcome.out.end(), '\n') == 2);  // the headings and the job
  CHECK(outcome.out.find(job->name()) != std::string::npos);
  CHECK(outcome.out.find(job->reason() + "\n") != std::string::npos);
}

TEST_CASE("An invite is data; what it means is told beside it") {
  FakeGdfd gdfd;
  const Outcome outcome = RunOn(gdfd, {"invite", "--role", "contributor,submitter", "--ttl", "1h30m", "--uses", "3"});
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "gdf1:abc\n");
  CHECK(gdfd.invite_request.ttl_seconds() == 5400);
  CHECK(gdfd.invite_request.uses() == 3);
  CHECK(gdfd.invite_request.roles() == "contributor,submitter");
  CHECK(json::parse(RunOn(gdfd, {"--json", "invite"}).out).at("invite") == "gdf1:abc");
}

// Standard output on a disk that is full.
Outcome RunOnFullDisk(std::vector<std::string> arguments) {
  std::ofstream out("/dev/full");
  REQUIRE(out);
  std::ostringstream err;
  PosixFileSystem files;
  const SystemClock clock;
  Environment environment = EnvironmentOn(out, err, files, clock, /*wait=*/true);
  const int code = Run(arguments, environment);
  return {code, "", err.str()};
}

TEST_CASE("What standard output does not take is an error of every command, and ends those that would go on") {
  FakeGdfd gdfd;
  const std::string job = WriteJob(gdfd);
  PosixFileSystem files;
  REQUIRE(files.WriteAtomic(gdfd.folder() + "/pass", "word\n").ok());
  gdfd.submit_reply.set_job("j7");
  gdfd.plan_reply.set_placeable(true);
  gdfd.jobs_reply.add_jobs()->set_id("j1");
  gdfd.nodes_reply.add_nodes()->set_name("alpha");
  gdfd.watches = {{testing::EventUpdate(1, "begins")}};  // goes on after it
  v1::FilePiece file;
  file.mutable_file()->set_name("empty");
  gdfd.SetExportPieces({file});
  v1::GeneratePiece sampled;
  sampled.set_text("light");
  gdfd.generate_pieces = {sampled};
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"--help"}, {"job", "logs", "--help"}, {"--version"}, {"status"}, {"status", "-w"}, {"status", "-w", "--json"},
           {"network", "create", "n"}, {"invite"}, {"invite", "--json"}, {"node", "list"}, {"ping", "alpha"}, {"job", "list"}, {"job", "list", "--json"},
           {"job", "logs", "j1"}, {"job", "logs", "-f", "j1"}, {"job", "logs", "-f", "--json", "j1"},
           {"job", "export", "j1", gdfd.folder() + "/out"}, {"generate", "j1", "--prompt", "x"},
           {"generate", "j1", "--prompt", "x", "--json"}, {"submit", job}, {"plan", job}, {"validate", "--json", job},
           {"backup", "--json", "--force", gdfd.folder() + "/b", "--passphrase-file", gdfd.folder() + "/pass"}}) {
    std::vector<std::string> arguments = {"--socket", gdfd.socket()};
    arguments.insert(arguments.end(), command.begin(), command.end());
    const Outcome outcome = RunOnFullDisk(arguments);
    CAPTURE(command, outcome.err);
    CHECK(outcome.code == 5);
    CHECK(outcome.err.find("standard output did not take all data: No space left on device\n") != std::string::npos);
  }
  // What was made all the same can be undone.
  CHECK(RunOnFullDisk({"--socket", gdfd.socket(), "invite"}).err.find("invite revoke i1") != std::string::npos);
}

TEST_CASE("Ping prints a line for each answer, then the path; JSON an object each") {
  FakeGdfd gdfd;
  gdfd.ping_reply.set_name("beta");
  gdfd.ping_reply.set_remote("192.0.2.7:7420");
  gdfd.ping_reply.set_connections(2);
  gdfd.ping_reply.set_round_trip_seconds(0.0213);
  gdfd.ping_reply.set_tcp_rtt_seconds(0.020);
  const Outcome outcome = RunOn(gdfd, {"ping", "beta", "-c", "2"});
  CHECK(outcome.code == 0);
  CHECK(gdfd.pings == 2);
  CHECK(gdfd.ping_request.node() == "beta");
  CHECK(outcome.out == "beta at 192.0.2.7:7420 (it dialled): 21.3 ms\nbeta at 192.0.2.7:7420 (it dialled): 21.3 ms\n");
  CHECK(outcome.err == "directly, over 2 connections; TCP's round trip 20.0 ms; too little bulk data went there yet to tell its rate\n");
  gdfd.ping_reply.set_dialled(true);
  gdfd.ping_reply.set_rate_bytes_per_sec(uint64_t{3} << 20);
  gdfd.ping_reply.set_bulk_in_clear(true);
  gdfd.ping_reply.set_relay("hub");
  CHECK(RunOn(gdfd, {"ping", "beta"}).err.find("bulk data last arrived there at 3.0 MiB/s, without TLS") != std::string::npos);
  CHECK(RunOn(gdfd, {"ping", "beta"}).err.find("by way of hub, over 2 connections") != std::string::npos);
  CHECK(gdfd.pings == 10);
  const json one = json::parse(RunOn(gdfd, {"ping", "beta", "--json", "-c", "1"}).out);
  CHECK(one["ping"]["dialled"] == true);
  CHECK(one["ping"]["rate_bytes_per_sec"] == 3 << 20);
  CHECK(one["ping"]["bulk_in_clear"] == true);
  CHECK(one["ping"]["relay"] == "hub");
  CHECK(RunOn(gdfd, {"ping", "beta", "-c", "0"}).code == 4);
  gdfd.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "node beta cannot be reached");
  CHECK(RunOn(gdfd, {"ping", "beta"}).code == 2);
}

TEST_CASE("The daemon's refusals keep their codes") {
  FakeGdfd gdfd;
  gdfd.error = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "you may look but not change members");
  const Outcome outcome = RunOn(gdfd, {"node", "ban", "beta"});
  CHECK(outcome.code == 2);
  CHECK(outcome.err == "gdfctl: you may look but not change members\n");
  CHECK(gdfd.change_request.change() == v1::ChangeNodeRequest::CHANGE_BAN);
}

TEST_CASE("Coordinators are chosen and listed") {
  FakeGdfd gdfd;
  CHECK(RunOn(gdfd, {"coordinator", "add", "beta"}).code == 0);
  CHECK(gdfd.change_request.node() == "beta");
  CHECK(gdfd.change_request.change() == v1::ChangeNodeRequest::CHANGE_ADD_COORDINATOR);
  CHECK(RunOn(gdfd, {"coordinator", "remove", "beta"}).code == 0);
  CHECK(gdfd.change_request.change() == v1::ChangeNodeRequest::CHANGE_REMOVE_COORDINATOR);
  for (const char* name : {"alpha", "beta", "gamma"}) gdfd.nodes_reply.add_nodes()->set_name(name);
  for (const int i : {0, 1}) gdfd.nodes_reply.mutable_nodes(i)->set_coordinator(true);
  gdfd.nodes_reply.mutable_nodes(1)->set_leads(true);
  const json listed = json::parse(RunOn(gdfd, {"--json", "coordinator", "list"}).out)["coordinators"];
  REQUIRE(listed.size() == 2);
  CHECK(listed[0]["leads"] == false);
  CHECK(listed[1]["name"] == "beta");
  CHECK(listed[1]["leads"] == true);
}

TEST_CASE("Status says what part a node has among several coordinators") {
  FakeGdfd gdfd;
  v1::StatusReply& status = gdfd.status_reply;
  status.set_node_name("alpha");
  status.set_network_id("n");
  status.set_network_name("my-net");
  status.set_coordinator(true);
  status.set_coordinator_connected(true);
  status.set_coordinators(3);
  status.set_leader("alpha");
  CHECK(RunOn(gdfd, {"status"}).out.find("one of 3 coordinators (leads)") != std::string::npos);
  status.set_leader("beta");
  CHECK(RunOn(gdfd, {"status"}).out.find("one of 3 coordinators (beta leads)") != std::string::npos);
  status.set_leader("");
  status.set_leaderless_seconds(12);
  CHECK(RunOn(gdfd, {"status"}).out.find("one of 3 coordinators (none leads for 12 s, and nothing is decided)") !=
        std::string::npos);
  status.set_coordinator(false);
  status.set_leader("beta");
  CHECK(RunOn(gdfd, {"status"}).out.find("connected to one of 3 coordinators (beta leads)") != std::string::npos);
}

TEST_CASE("Submit uploads, prints the job's id and passes the token on") {
  FakeGdfd gdfd;
  gdfd.submit_reply.set_job("j7");
  const Outcome outcome = RunOn(gdfd, {"submit", WriteJob(gdfd), "--submit-token", "t1"});
  CAPTURE(outcome.err);
  CHECK(outcome.code == 0);
  CHECK(outcome.out == "j7\n");
  CHECK(outcome.err.find("gdfctl --socket " + gdfd.socket() + " job wait j7\n") != std::string::npos);
  CHECK(gdfd.uploads["data"].at("00000-a.txt") == "some text to train on");
  CHECK(gdfd.submit_request.inputs().at("data") == "digest-of-data");
  CHECK(gdfd.submit_request.submit_token() == "t1");
}

TEST_CASE("A job that no node can run ends with 6 and shows why") {
  FakeGdfd gdfd;
  gdfd.submit_reply.set_refused("needs 90 GiB: parameters 40 GiB + gradients 50 GiB");
  const Outcome outcome = RunOn(gdfd, {"submit", WriteJob(gdfd)});
  CHECK(outcome.code == 6);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("parameters 40 GiB") != std::string::npos);
  gdfd.plan_reply.set_reason("no node online");
  CHECK(RunOn(gdfd, {"plan", WriteJob(gdfd)}).code == 6);
  gdfd.plan_reply.set_placeable(true);
  CHECK(RunOn(gdfd, {"plan", WriteJob(gdfd)}).code == 0);
}

TEST_CASE("Waiting ends by the verdict, with the curve") {
  FakeGdfd gdfd;
  gdfd.submit_reply.set_job("j1");
  for (const auto& [phase, code] : std::vector<std::pair<v1::JobPhase, int>>{
           {v1::JOB_PHASE_SUCCEEDED, 0}, {v1::JOB_PHASE_FAILED, 1}, {v1::JOB_PHASE_CANCELLED, 7}}) {
    gdfd.watches = {{testing::RoundUpdate(0, 3, 1000), testing::RoundUpdate(1, 2, 2000), testing::FinishedUpdate(phase, "why")}};
    gdfd.watch_requests.clear();
    const Outcome outcome = RunOn(gdfd, {"submit", WriteJob(gdfd), "--wait"});
    CAPTURE(outcome.err);
    CHECK(outcome.code == code);
    CHECK(outcome.out == "j1\n");
    CHECK(outcome.err.find("training loss") != std::string::npos);
    CHECK(outcome.err.find("why") != std::string::npos);
  }
  const Outcome outcome = RunOn(gdfd, {"job", "wait", "j1", "--json"});
  CHECK(json::parse(outcome.out).at("job").at("phase") == "cancelled");
}

TEST_CASE("Logs follow over a daemon that goes away, without gaps or repetitions") {
  FakeGdfd gdfd;
  gdfd.watches = {{testing::EventUpdate(1, "one"), testing::RoundUpdate(0, 3, 1000)},  // then the daemon stops
                  {testing::EventUpdate(1, "one"), testing::EventUpdate(2, "two"), testing::RoundUpdate(0, 3, 1000),
                   testing::RoundUpdate(1, 2, 2000), testing::FinishedUpdate(v1::JOB_PHASE_SUCCEEDED)}};
  const Outcome outcome = RunOn(gdfd, {"job", "logs", "-f", "j1", "--json"});
  CHECK(outcome.code == 0);
  std::vector<std::string> told;
  std::istringstream lines(outcome.out);
  for (std::string line; std::getline(lines, line);) {
    const json update = json::parse(line);
    CHECK(update.at("schema_version") == 1);
    const std::string type = update.at("type");
    told.push_back(type == "event"   ? update.at("event").at("text").get<std::string>()
                   : type == "round" ? "round " + update.at("round").at("round").dump()
                                     : type);
  }
  CHECK(told == std::vector<std::string>{"one", "round 0", "two", "round 1", "finished"});
  REQUIRE(gdfd.watch_requests.size() == 2);
  CHECK(gdfd.watch_requests[1].after_event() == 1);
  CHECK(gdfd.watch_requests[1].from_round() == 1);
  CHECK(outcome.err.find("went away") != std::string::npos);
}

TEST_CASE("Leaving is confirmed, and says whether the network knows") {
  FakeGdfd gdfd;
  const auto leave = [&](std::vector<std::string> flags, const char* answer) {
    gdfd.status_reply.set_network_id("n");
    flags.insert(flags.begin(), {"--socket", gdfd.socket(), "leave"});
    return RunWith(flags, {}, answer);
  };
  const Outcome refused = leave({}, nullptr);
  CHECK(refused.code == 4);
  CHECK(refused.err.find("--yes") != std::string::npos);
  CHECK(leave({}, "no").code == 7);
  CHECK(gdfd.leaves == 0);
  CHECK(leave({}, "yes").code == 0);
  CHECK(leave({"--yes"}, nullptr).code == 0);
  CHECK(gdfd.leaves == 2);
  gdfd.leave_reply.set_not_told("no coordinator answers");
  const Outcome untold = leave({"--yes", "--json"}, nullptr);
  CHECK(untold.code == 0);
  CHECK(untold.err.find("no coordinator answers") != std::string::npos);
  CHECK(json::parse(untold.out).at("told") == false);
  for (const auto code : {grpc::StatusCode::CANCELLED, grpc::StatusCode::UNAVAILABLE}) {
    gdfd.leave_error = grpc::Status(code, "");  // it went down, for another's call
    const Outcome others = leave({"--yes", "--json"}, nullptr);
    CHECK(others.code == 0);
    CHECK(others.err.find("as somebody else asked") != std::string::npos);
    CHECK(json::parse(others.out).at("told") == nullptr);
  }
  gdfd.leave_error = grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "it coordinates");
  const Outcome stays = leave({"--yes"}, nullptr);
  CHECK(stays.code != 0);
  CHECK(stays.err == "gdfctl: it coordinates\n");
}

TEST_CASE("A backup replaces a file on demand only, and nothing but a file") {
  FakeGdfd gdfd;
  PosixFileSystem files;
  const std::string folder = gdfd.folder();
  REQUIRE(files.WriteAtomic(folder + "/pass", "word\n").ok());
  REQUIRE(files.WriteAtomic(folder + "/old", "precious").ok());
  std::filesystem::create_symlink(folder + "/old", folder + "/link");
  const auto backup = [&](const std::string& path, bool force) {
    std::vector<std::string> arguments = {"backup", path, "--passphrase-file", folder + "/pass"};
    if (force) arguments.push_back("--force");
    return RunOn(gdfd, arguments).code;
  };
  CHECK(backup(folder + "/new", false) == 0);
  CHECK(backup(folder + "/old", false) == 4);
  CHECK(backup(folder + "/link", true) == 4);
  CHECK(backup("/dev/null", true) == 4);
  CHECK(*files.Read(folder + "/old") == "precious");
  CHECK(backup(folder + "/old", true) == 0);
  CHECK(*files.Read(folder + "/old") == "sealed");
}

TEST_CASE("A backup and an export without a name say what they need one of") {
  FakeGdfd gdfd;
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"backup", ""}, {"backup", "-"}, {"job", "export", "j1", ""}}) {
    const auto refused = RunOn(gdfd, arguments);
    CAPTURE(arguments, refused.err);
    CHECK(refused.code == 4);
    CHECK(refused.err.find("needs the name of a f") != std::string::npos);
  }
}

TEST_CASE("An unknown job ends following at once") {
  FakeGdfd gdfd;
  gdfd.watches = {{}};
  gdfd.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "no job j9");
  CHECK(RunOn(gdfd, {"job", "logs", "-f", "j9"}).code == 4);
}

TEST_CASE("Export writes whole files below its folder only") {
  FakeGdfd gdfd;
  const auto piece = [](const std::string& name, uint64_t size, const std::string& data) {
    v1::FilePiece file, bytes;
    file.mutable_file()->set_name(name);
    file.mutable_file()->set_size(size);
    bytes.set_data(data);
    return std::vector<v1::FilePiece>{file, bytes};
  };
  const std::string folder = gdfd.folder() + "/out";
  gdfd.SetExportPieces(piece("config.json", 2, "{}"));
  const Outcome good = RunOn(gdfd, {"job", "export", "j1", folder});
  CHECK(good.code == 0);
  CHECK(good.out == folder + "/config.json\n");
  CHECK(*PosixFileSystem().Read(folder + "/config.json") == "{}");
  CHECK(RunOn(gdfd, {"job", "export", "j1", folder}).code == 4);  // not empty
  gdfd.SetExportPieces(piece("../escape", 1, "x"));
  CHECK(RunOn(gdfd, {"job", "export", "j1", folder, "--force"}).code == 5);
  CHECK(!PosixFileSystem().Exists(gdfd.folder() + "/escape"));
  gdfd.SetExportPieces(piece("short", 5, "x"));
  CHECK(RunOn(gdfd, {"job", "export", "j1", folder, "--force"}).code == 5);
  CHECK(!PosixFileSystem().Exists(folder + "/short"));
}

TEST_CASE("An export that cannot be whole leaves its folder as it was") {
  FakeGdfd gdfd;
  PosixFileSystem files;
  std::vector<v1::FilePiece> pieces;
  for (const char* name : {"config.json", "model.safetensors"}) {
    pieces.emplace_back().mutable_file()->set_name(name);
    pieces.back().mutable_file()->set_size(3);
    pieces.emplace_back().set_data("new");
  }
  gdfd.SetExportPieces(pieces);
  const std::string folder = gdfd.folder() + "/out";
  const auto export_again = [&] { return RunOn(gdfd, {"job", "export", "j1", folder, "--force"}); };
  REQUIRE(files.MakeFolders(folder + "/model.safetensors", 0700).ok());
  REQUIRE(files.WriteAtomic(folder + "/config.json", "old").ok());
  const Outcome refused = export_again();
  CHECK(refused.code == 4);
  CHECK(refused.err == "gdfctl: " + folder + "/model.safetensors is no regular file and is not replaced\n");
  CHECK(*files.Read(folder + "/config.json") == "old");
  CHECK(*files.List(folder) == std::vector<std::string>{"config.json", "model.safetensors"});

  REQUIRE(files.Remove(folder + "/model.safetensors").ok());
  gdfd.error = grpc::Status(grpc::StatusCode::UNAVAILABLE, "going down");  // after the last byte
  CHECK(export_again().code == 2);
  CHECK(*files.Read(folder + "/config.json") == "old");
  CHECK(*files.List(folder) == std::vector<std::string>{"config.json"});

  gdfd.error = grpc::Status::OK;
  CHECK(export_again().code == 0);
  CHECK(*files.Read(folder + "/config.json") == "new");
  CHECK(*files.List(folder) == std::vector<std::string>{"config.json", "model.safetensors"});
}

// Of j1 after 40 rounds, on ann, who keeps its parameters, and bob, who keeps his worker's state.
v1::ListCheckpointsReply TwoCopies() {
  v1::ListCheckpointsReply reply;
  v1::Checkpoint& checkpoint = *reply.add_checkpoints();
  checkpoint.set_round(40);
  checkpoint.set_digest("0123456789abcdef");
  checkpoint.set_momentum_digest("fedcba9876543210");
  checkpoint.set_parameters(1000);
  checkpoint.set_epoch(2);
  checkpoint.set_data_epoch(1);
  checkpoint.set_data_position(77);
  for (const char* name : {"ann", "bob"}) {
    checkpoint.add_signers(std::string("id-of-") + name);
    checkpoint.add_signer_names(name);
    v1::CheckpointCopy& copy = *checkpoint.add_copies();
    copy.set_node(std::string("id-of-") + name);
    copy.set_node_name(name);
    copy.set_written_unix_ms(1'700'000'000'000);
    copy.set_new_bytes(2048);
    copy.set_inner_state(copy.node_name() == "bob");
    copy.set_parameters(copy.node_name() == "ann");
  }
  checkpoint.set_wanted(2);
  return reply;
}

TEST_CASE("Checkpoints are listed and shown, as text and as JSON, with who does not answer") {
  FakeGdfd gdfd;
  const Outcome none = RunOn(gdfd, {"checkpoint", "list", "j1"});
  CHECK(none.code == 0);
  CHECK(none.out.empty());
  CHECK(none.err.find("j1 has no checkpoint that is kept") != std::string::npos);

  gdfd.checkpoints_reply = TwoCopies();
  gdfd.checkpoints_reply.add_silent("id-of-cem");
  gdfd.checkpoints_reply.add_silent_names("cem");
  gdfd.checkpoints_reply.add_passed_over("/x: is damaged");
  const Outcome list = RunOn(gdfd, {"checkpoint", "list", "j1"});
  CHECK(list.code == 0);
  CHECK(gdfd.checkpoints_of == "j1");
  for (const char* text : {"40", "0123456789ab", "2.0 KiB", "1 of 2: ann\n"}) {
    INFO(list.out);
    CHECK(list.out.find(text) != std::string::npos);
  }
  CHECK(list.err == "cem did not say what it keeps\ngdfctl: warning: passed over: /x: is damaged\n");
  const json listed = json::parse(RunOn(gdfd, {"--json", "checkpoint", "list", "j1"}).out);
  CHECK(listed["checkpoints"][0]["round"] == 40);
  CHECK(listed["checkpoints"][0]["copies"][1]["inner_state"] == true);
  CHECK(listed["checkpoints"][0]["copies"][1]["parameters"] == false);
  CHECK(listed["checkpoints"][0]["wanted"] == 2);
  CHECK(listed["silent_names"] == json{"cem"});
  CHECK(listed["passed_over"] == json{"/x: is damaged"});

  const Outcome shown = RunOn(gdfd, {"checkpoint", "show", "j1", "40"});
  CHECK(shown.code == 0);
  for (const char* text : {"of j1 after 40 rounds", "1000, digest 0123456789abcdef", "position 77 of epoch 1",
                           "in epoch 2 by ann, bob", "1 of 2: ann\n", "kept by others", "not saved"}) {
    INFO(shown.out << " has " << text);
    CHECK(shown.out.find(text) != std::string::npos);
  }
  CHECK(json::parse(RunOn(gdfd, {"--json", "checkpoint", "show", "j1", "40"}).out)["checkpoint"]["signer_names"] ==
        json{"ann", "bob"});
  const Outcome other = RunOn(gdfd, {"checkpoint", "show", "j1", "41"});
  CHECK(other.code == 4);
  CHECK(other.err.find("no node that answers keeps a checkpoint of round 41 of j1") != std::string::npos);
  CHECK(RunOn(gdfd, {"checkpoint", "show", "j1", "0"}).code == 4);
  CHECK(RunOn(gdfd, {"checkpoint", "show", "j1", "-1"}).code == 4);
  CHECK(RunOn(gdfd, {"checkpoint", "show", "j1"}).code == 4);
  gdfd.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "no job j9");
  CHECK(RunOn(gdfd, {"checkpoint", "list", "j9"}).code == 4);
}

TEST_CASE("A check of a checkpoint says what is whole, mended and missing, and ends by it") {
  FakeGdfd gdfd;
  gdfd.verify_reply.set_chunks(12);
  gdfd.verify_reply.set_bytes(uint64_t{3} << 20);
  gdfd.verify_reply.set_parameters(true);
  gdfd.verify_reply.set_outer_state(true);
  gdfd.verify_reply.add_repaired()->set_id("00112233445566");
  gdfd.verify_reply.mutable_repaired(0)->set_part("model");
  const Outcome whole = RunOn(gdfd, {"checkpoint", "verify", "j1", "40"});
  CHECK(whole.code == 0);
  CHECK(gdfd.verify_request.job() == "j1");
  CHECK(gdfd.verify_request.round() == 40);
  for (const char* text : {"parameters, outer state\n", "12 chunks, 3.0 MiB", "001122334455 (model)"}) {
    INFO(whole.out << " has " << text);
    CHECK(whole.out.find(text) != std::string::npos);
  }
  CHECK(json::parse(RunOn(gdfd, {"--json", "checkpoint", "verify", "j1", "40"}).out)["whole"] == true);

  gdfd.verify_reply.add_missing()->set_id("99aabbccddeeff");
  gdfd.verify_reply.mutable_missing(0)->set_part("inner");
  gdfd.verify_reply.set_why_not("bob does not have it");
  const Outcome lost = RunOn(gdfd, {"checkpoint", "verify", "j1", "40"});
  CHECK(lost.code == 1);
  CHECK(lost.out.find("99aabbccddee (inner)") != std::string::npos);
  CHECK(lost.out.find("bob does not have it") != std::string::npos);
  CHECK(lost.err == "gdfctl: the checkpoint is not whole on this node\n");
  const Outcome as_json = RunOn(gdfd, {"--json", "checkpoint", "verify", "j1", "40"});
  CHECK(as_json.code == 1);
  CHECK(json::parse(as_json.out)["missing"][0]["part"] == "inner");

  gdfd.verify_reply.Clear();
  gdfd.verify_reply.set_wrong("theta has digest x");
  CHECK(RunOn(gdfd, {"checkpoint", "verify", "j1", "40"}).code == 1);
  gdfd.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "this node keeps no checkpoint");
  CHECK(RunOn(gdfd, {"checkpoint", "verify", "j1", "40"}).code == 4);
}

TEST_CASE("One checkpoint is removed from the node that is asked") {
  FakeGdfd gdfd;
  CHECK(RunOn(gdfd, {"checkpoint", "remove", "j1", "40"}).code == 0);
  CHECK(gdfd.removed_checkpoint.job() == "j1");
  CHECK(gdfd.removed_checkpoint.round() == 40);
  gdfd.error = grpc::Status(grpc::StatusCode::NOT_FOUND, "this node keeps no checkpoint");
  CHECK(RunOn(gdfd, {"checkpoint", "remove", "j1", "41"}).code == 4);
}

TEST_CASE("A rollback names the job, the round and why, and needs the round") {
  FakeGdfd gdfd;
  const Outcome back = RunOn(gdfd, {"checkpoint", "rollback", "j1", "--to", "40", "--reason", "it diverged"});
  CHECK(back.code == 0);
  CHECK(gdfd.rollback_request.job() == "j1");
  CHECK(gdfd.rollback_request.round() == 40);
  CHECK(gdfd.rollback_request.reason() == "it diverged");
  CHECK(back.err.find("j1 goes back to what 40 rounds had made") == 0);
  CHECK(RunOn(gdfd, {"checkpoint", "rollback", "j1"}).code == 4);
  CHECK(RunOn(gdfd, {"checkpoint", "rollback", "j1", "--to", "0"}).code == 4);
  gdfd.error = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not your job");
  CHECK(RunOn(gdfd, {"checkpoint", "rollback", "j1", "--to", "40"}).code == 2);
}

TEST_CASE("A checkpoint is exported like the newest parameters") {
  FakeGdfd gdfd;
  std::vector<v1::FilePiece> pieces(2);
  pieces[0].mutable_file()->set_name("config.json");
  pieces[0].mutable_file()->set_size(2);
  pieces[0].set_rounds(40);
  pieces[1].set_data("{}");
  gdfd.SetExportPieces(pieces);
  const std::string folder = gdfd.folder() + "/out";
  const Outcome exported = RunOn(gdfd, {"checkpoint", "export", "j1", "40", folder});
  CHECK(exported.code == 0);
  CHECK(gdfd.export_request.job() == "j1");
  CHECK(gdfd.export_request.checkpoint() == 40);
  CHECK(exported.err.find("the parameters after 40 rounds") != std::string::npos);
  CHECK(*PosixFileSystem().Read(folder + "/config.json") == "{}");
  CHECK(RunOn(gdfd, {"checkpoint", "export", "j1", "40", folder}).code == 4);  // not empty
  CHECK(RunOn(gdfd, {"checkpoint", "export", "j1", "40", folder, "--force"}).code == 0);
  CHECK(RunOn(gdfd, {"job", "export", "j1", folder, "--force"}).code == 0);
  CHECK(gdfd.export_request.checkpoint() == 0);
}

TEST_CASE("Cancel and generate pass their arguments on") {
  FakeGdfd gdfd;
  CHECK(RunOn(gdfd, {"job", "cancel", "j3"}).code == 0);
  CHECK(gdfd.cancelled == "j3");
  v1::GeneratePiece piece;
  piece.set_text("light");
  piece.set_finished(true);
  piece.set_tokens(5);
  gdfd.generate_pieces = {piece};
  const Outcome outcome = RunOn(gdfd, {"generate", "j3", "--prompt", "Let there be ", "--max-tokens", "5", "--temperature", "0", "--seed", "9"});
  CHECK(outcome.out == "light\n");
  CHECK(gdfd.generate_request.prompt() == "Let there be ");
  CHECK(gdfd.generate_request.max_tokens() == 5);
  CHECK(gdfd.generate_request.temperature() == 0);
  CHECK(gdfd.generate_request.seed() == 9);
}

TEST_CASE("A job is shown with its losses and with when it began, ended and how long it took") {
  FakeGdfd gdfd;
  gdfd.watches = {{testing::RoundUpdate(0, 3, 1000), testing::RoundUpdate(1, 2, 2000)}};
  v1::Job& job = *gdfd.job_reply.mutable_job();
  job.set_id("j1");
  job.set_phase(v1::JOB_PHASE_SUCCEEDED);
  job.set_started_unix_ms(1'000'000);
  job.mutable_last_round()->set_loss(2);
  const auto shown = [&] {
    gdfd.watch_requests.clear();
    const Outcome outcome = RunOn(gdfd, {"job", "show", "j1"});
    CAPTURE(outcome.err);
    CHECK(outcome.code == 0);
    return outcome.out;
  };
  const std::string before_the_end = shown();
  CHECK(before_the_end.find("2.0000, validation ") != std::string::npos);
  CHECK(before_the_end.find("began ") != std::string::npos);
  CHECK(before_the_end.find("took") == std::string::npos);
  job.set_ended_unix_ms(1'123'000);
  CHECK(shown().find(", took 2 min 3 s") != std::string::npos);
}

TEST_CASE("A job that may not be meant as it is goes on with a warning") {
  FakeGdfd gdfd;
  const std::string path = WriteJob(gdfd);
  const std::string codec = GENERATE("sign", "topk2", "topk8");
  for (const std::string command : {"validate", "plan", "submit"}) {
    const auto run = [&](std::vector<std::string> more) {
      more.insert(more.begin(), {command, path, "--json", "--set", "rounds.codec=" + codec});
      return RunOn(gdfd, more);
    };
    const Outcome odd = run({"--set", "rounds.error_feedback=false"});
    CHECK(odd.err.find("warning: rounds.error_feedback is false, and what codec " + codec) != std::string::npos);
    REQUIRE(json::parse(odd.out).at("warnings").size() == 1);
    CHECK(run({"--set", "rounds.error_feedback=false", "--quiet"}).err.find("warning") == std::string::npos);
    const Outcome usual = run({});
    CHECK(usual.err.find("warning") == std::string::npos);
    CHECK(json::parse(usual.out).at("warnings").empty());
  }
}

TEST_CASE("Validate needs no daemon") {
  FakeGdfd gdfd;
  const std::string path = WriteJob(gdfd);
  gdfd.Stop();
  CHECK(RunOn(gdfd, {"validate", path}).code == 0);
  CHECK(json::parse(RunOn(gdfd, {"validate", path, "--json"}).out).at("rounds") == 2);
  CHECK(RunOn(gdfd, {"validate", path, "--set", "train.steps=10", "--set", "rounds.inner_steps=5"}).code == 0);
  CHECK(RunOn(gdfd, {"validate", path, "--set", "train.steps=x"}).code == 4);
  CHECK(RunOn(gdfd, {"validate", gdfd.folder() + "/missing.yaml"}).code == 4);
  const auto errors = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"validate", "--json"});
    const Outcome outcome = RunOn(gdfd, arguments);
    CHECK(outcome.code == 4);
    const json object = json::parse(outcome.out);
    CHECK(object.at("schema_version") == 1);
    CHECK(object.at("valid") == false);
    return object.at("errors");
  };
  // Line 7 of WriteJob's file: "rounds: {inner_steps: 10}".
  const json placed = errors({path, "--set", "train.steps=5"});
  REQUIRE(placed.size() == 1);
  CHECK(placed[0].at("file") == path);
  CHECK(placed[0].at("line") == 7);
  CHECK(placed[0].at("column") == 23);
  CHECK(placed[0].at("message") == "'rounds.inner_steps' must be at most train.steps (5), got 10");
  const json set = errors({path, "--set", "train.steps=x"});
  CHECK(set[0].at("file") == "--set train.steps=x");
  CHECK(set[0].at("line") == nullptr);
  CHECK(errors({gdfd.folder() + "/missing.yaml"})[0].at("file") == nullptr);
}

}  // namespace
}  // namespace gdf::ctl
