// TLS records against the published example of RFC 8448, against OpenSSL at the other end, and against peers that break
// the rules.
#include "core/net/records.h"

#include <openssl/ssl.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "core/base/rng.h"
#include "core/base/text.h"
#include "core/net/tls_context.h"
#include "tests/unit/net/net_harness.h"
#include "tests/unit/net/record_peers.h"

namespace gdf::net {
namespace {

using Octets = std::vector<uint8_t>;
using Kind = ChannelStep::Kind;

Octets FromHex(absl::string_view hex) {
  const std::string bytes = absl::HexStringToBytes(hex);
  return Octets(bytes.begin(), bytes.end());
}

Octets RandomOctets(SeededRng& rng, size_t size) {
  Octets bytes(size);
  rng.Fill(absl::MakeSpan(bytes));
  return bytes;
}

Octets Sealed(RecordCipher& cipher, RecordType type, const Octets& content) {
  Octets record(content.size() + kRecordOverhead);
  cipher.Seal(type, content, record.data());
  return record;
}

// Records at one end; at the other whoever has the socket and the keys.
struct Reader {
  Reader() : records(sockets.ends[0], CipherOf('w', true), CipherOf('r', false)) {}

  void Send(const Octets& bytes) {
    REQUIRE(send(sockets.ends[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  }
  void Send(RecordType type, const Octets& content) { Send(Sealed(peer, type, content)); }
  ChannelStep Read(size_t most = kRecordBytes) {
    data.assign(most, 0);
    ChannelStep step = records.Read(absl::MakeSpan(data));
    data.resize(step.bytes);
    return step;
  }
  // `alert`: what the peer is told (RFC 8446, section 6), or none.
  void CheckEnds(const std::string& why, std::optional<uint8_t> alert) {
    const ChannelStep step = Read();
    CHECK(step.kind == Kind::kEnded);
    CHECK_THAT(step.ended, Catch::Matchers::Contains(why));
    CHECK(records.Refused() == alert.has_value());
    CHECK(Told() == (alert ? Octets{2, *alert, 21} : Octets()));
    records.Finish();
    CHECK(Told() == (alert ? Octets() : Octets{1, 0, 21}));
  }
  // Content and type of the record that came to the peer, if any.
  Octets Told() {
    Octets record(100);
    const ssize_t n = recv(sockets.ends[1], record.data(), record.size(), 0);
    if (n <= 0) return {};
    record.resize(static_cast<size_t>(n));
    Octets content(record.size() - kRecordHeaderBytes - kRecordTagBytes);
    REQUIRE(heard.Open(record.data(), absl::MakeConstSpan(record).subspan(kRecordHeaderBytes), content.data(), &content.back()));
    return content;
  }

  SocketPair sockets;
  RecordCipher peer = CipherOf('r', true), heard = CipherOf('w', false);
  Records records;
  Octets data;
};

// Records at one end, OpenSSL's own at the other.
struct WithOpenSsl {
  WithOpenSsl(const char* suite, bool client, uint64_t records_per_key) {
    const TlsContext ours = *TlsContext::Create(SeedOf(1)), theirs = *TlsContext::Create(SeedOf(2));
    TrafficSecrets secrets;
    const SslPtr session = ours.NewSession(sockets.ends[0], client, &secrets);
    peer = theirs.NewSession(sockets.ends[1], !client);
    REQUIRE(SSL_set_ciphersuites(client ? session.get() : peer.get(), suite) == 1);
    SSL_set_mode(peer.get(), SSL_MODE_ENABLE_PARTIAL_WRITE);
    bool here = false, there = false;
    for (int turn = 0; turn < 10 && !(here && there); ++turn) {
      here = SSL_do_handshake(session.get()) == 1;
      there = SSL_do_handshake(peer.get()) == 1;
    }
    REQUIRE((here && there));
    const SSL_CIPHER* chosen = SSL_get_current_cipher(session.get());
    REQUIRE(std::string(SSL_CIPHER_get_name(chosen)) == suite);
    records.emplace(sockets.ends[0], RecordCipher(chosen, std::move(client ? secrets.client : secrets.server), true),
                    RecordCipher(chosen, std::move(client ? secrets.server : secrets.client), false), records_per_key);
    records->ReadAhead();
    SSL_set_msg_callback(peer.get(), [](int, int, int type, const void*, size_t, SSL*, void* updates) {
      if (type == SSL3_RT_HANDSHAKE) ++*static_cast<int*>(updates);
    });
    SSL_set_msg_callback_arg(peer.get(), &updates);
  }

  // Each end writes and reads what the other's socket takes, until all of both has come.
  void Exchange(const Octets& from_here, const Octets& from_there, size_t read_at_once) {
    Octets here, there;
    size_t sent_here = 0, sent_there = 0;
    while (here.size() < from_there.size() || there.size() < from_here.size()) {
      if (sent_here < from_here.size()) {
        const ChannelStep step = records->Write(absl::MakeConstSpan(from_here).subspan(sent_here), false);
        REQUIRE(step.kind != Kind::kEnded);
        sent_here += step.bytes;
      }
      size_t n = 0;
      if (sent_there < from_there.size() &&
          SSL_write_ex(peer.get(), from_there.data() + sent_there, from_there.size() - sent_there, &n) == 1) {
        sent_there += n;
      }
      Octets part(read_at_once);
      const ChannelStep step = records->Read(absl::MakeSpan(part));
      INFO(step.ended);
      REQUIRE(step.kind != Kind::kEnded);
      here.insert(here.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(step.bytes));
      if (SSL_read_ex(peer.get(), part.data(), part.size(), &n) == 1) {
        there.insert(there.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(n));
      } else {
        REQUIRE(SSL_get_error(peer.get(), 0) == SSL_ERROR_WANT_READ);
      }
    }
    CHECK(here == from_there);
    CHECK(there == from_here);
  }

  SocketPair sockets;
  SslPtr peer;
  std::optional<Records> records;
  int updates = 0;  // handshake messages after it, that the peer has written or read
};

// RFC 8448, section 3: the client's application data.
const char kClientSecret[] = "9e40646ce79a7f9dc05af8889bce6552875afa0b06df0087f792ebb7c17504a5";
const char kClientRecord[] =
    "1703030043a23f7054b62c94d0affafe8228ba55cbefacea42f914aa66bcab3f2b9819a8a5b46b395bd54a9a20441e2b62974e1f5a6292a297"
    "7014bd1e3deae63aeebb21694915e4";

Octets ClientData() {
  Octets data(50);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i);
  return data;
}

}  // namespace

TEST_CASE("net: a record's bytes are those of RFC 8448") {
  RecordCipher seals(SuiteOf(1), TrafficSecret(FromHex(kClientSecret)), true);
  CHECK(Sealed(seals, RecordType::kData, ClientData()) == FromHex(kClientRecord));

  RecordCipher opens(SuiteOf(1), TrafficSecret(FromHex(kClientSecret)), false);
  const Octets record = FromHex(kClientRecord);
  Octets data(50);
  uint8_t type = 0;
  REQUIRE(opens.Open(record.data(), absl::MakeConstSpan(record).subspan(kRecordHeaderBytes), data.data(), &type));
  CHECK(data == ClientData());
  CHECK(type == static_cast<uint8_t>(RecordType::kData));
}

TEST_CASE("net: records and OpenSSL understand each other in every suite, as client and as server") {
  const char* suite = GENERATE("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256");
  const bool client = GENERATE(false, true);
  WithOpenSsl ends(suite, client, Records::kRecordsPerKey);
  SeededRng rng(1);
  for (const size_t size : {size_t{1}, size_t{16}, size_t{5000}, kRecordBytes, kRecordBytes + 1, size_t{1} << 20}) {
    for (const size_t read : {size_t{16}, kRecordBytes - 1, kRecordBytes, size_t{1} << 17}) {
      ends.Exchange(RandomOctets(rng, size), RandomOctets(rng, size), std::min(read, size));
    }
  }
  CHECK(ends.updates == 0);
  ends.records->Finish();
  uint8_t byte = 0;
  CHECK(SSL_read(ends.peer.get(), &byte, 1) == 0);
  CHECK(SSL_get_shutdown(ends.peer.get()) == SSL_RECEIVED_SHUTDOWN);
}

TEST_CASE("net: each end may take a new key whenever it likes") {
  const char* suite = GENERATE("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384");
  WithOpenSsl ends(suite, true, /*records_per_key=*/20);
  SeededRng rng(2);
  for (int round = 1; round <= 30; ++round) {
    INFO(round);
    const bool asks = round % 3 == 0;
    if (round % 2 == 0) SSL_key_update(ends.peer.get(), asks ? SSL_KEY_UPDATE_REQUESTED : SSL_KEY_UPDATE_NOT_REQUESTED);
    ends.Exchange(RandomOctets(rng, 100'000), RandomOctets(rng, 50'000), kRecordBytes);
  }
  CHECK(ends.updates >= 15 + 10);  // the peer's, and one for every 20 of the 30 times 7 records
}

TEST_CASE("net: data that does not fit is given in pieces, padding never") {
  Reader reader;
  const Octets text = {'a', 'b', 'c', 'd', 'e'};
  Octets padded = text;
  padded.push_back(static_cast<uint8_t>(RecordType::kData));
  padded.resize(100);  // zeros, as the record's own type then is
  reader.Send(RecordType::kPadding, padded);
  reader.Send(RecordType::kData, text);
  const size_t most = GENERATE(2, 5, 200);
  Octets got;
  while (got.size() < 10) {
    REQUIRE(reader.Read(most).done());
    REQUIRE(reader.data.size() <= most);
    got.insert(got.end(), reader.data.begin(), reader.data.end());
  }
  CHECK(got == Octets{'a', 'b', 'c', 'd', 'e', 'a', 'b', 'c', 'd', 'e'});
  CHECK(reader.Read().kind == Kind::kWaitRead);
}

TEST_CASE("net: no more is taken from the socket than the record that is read, until it may") {
  Reader reader;
  const Octets first = Sealed(reader.peer, RecordType::kData, {1, 2, 3}), second = {9, 9, 9};
  reader.Send(first);
  reader.Send(second);
  REQUIRE(reader.Read().done());
  CHECK(reader.data == Octets{1, 2, 3});
  Octets left(10);
  const ssize_t n = recv(reader.sockets.ends[0], left.data(), left.size(), 0);
  REQUIRE(n == 3);
  left.resize(3);
  CHECK(left == second);
}

TEST_CASE("net: a record of which any byte was changed ends the connection and gives nothing") {
  RecordCipher cipher = CipherOf('r', true);
  const Octets record = Sealed(cipher, RecordType::kData, {1, 2, 3, 4});
  for (size_t i = 0; i < record.size(); ++i) {
    INFO(i);
    Reader reader;
    Octets changed = record;
    changed[i] ^= 0x10;
    reader.Send(changed);
    shutdown(reader.sockets.ends[1], SHUT_WR);
    CHECK(reader.Read().kind == Kind::kEnded);
    CHECK(reader.data.empty());
  }
  Reader twice;
  twice.Send(record);
  twice.Send(record);
  CHECK(twice.Read().done());
  twice.CheckEnds("not what the peer has sealed", SSL_AD_BAD_RECORD_MAC);
}

TEST_CASE("net: what a peer says beside data") {
  Reader reader;
  SECTION("that it ends") {
    reader.Send(RecordType::kAlert, {1, 0});
    reader.CheckEnds("closed by the peer", std::nullopt);
  }
  SECTION("an alert") {
    reader.Send(RecordType::kAlert, {2, 42});
    reader.CheckEnds("TLS alert bad certificate", std::nullopt);
  }
  SECTION("an alert that is none") {
    reader.Send(RecordType::kAlert, {2});
    reader.CheckEnds("alert that is none", SSL_AD_DECODE_ERROR);
  }
  SECTION("a ticket, which nobody uses") {
    reader.Send(RecordType::kHandshake, {4, 0, 0, 0});
    reader.Send(RecordType::kData, {7});
    CHECK(reader.Read().bytes == 1);
  }
  SECTION("a ticket and a new key in one record") {
    reader.Send(RecordType::kHandshake, {4, 0, 0, 2, 8, 8, 24, 0, 0, 1, 0});
    reader.peer.Advance();
    reader.Send(RecordType::kData, {7});
    CHECK(reader.Read().bytes == 1);
  }
  SECTION("a ticket without its end") {
    reader.Send(RecordType::kHandshake, {4, 0, 0});
    reader.CheckEnds("no place here", SSL_AD_UNEXPECTED_MESSAGE);
  }
  SECTION("another handshake") {
    reader.Send(RecordType::kHandshake, {1, 0, 0, 0});
    reader.CheckEnds("no place here", SSL_AD_UNEXPECTED_MESSAGE);
  }
  SECTION("a new key that is none") {
    reader.Send(RecordType::kHandshake, {24, 0, 0, 1, 2});
    reader.CheckEnds("no place here", SSL_AD_UNEXPECTED_MESSAGE);
  }
  SECTION("another type of record, or only padding") {
    reader.Send(GENERATE(RecordType{20}, RecordType::kPadding), {0, 0});
    reader.CheckEnds("wrong type", SSL_AD_UNEXPECTED_MESSAGE);
  }
  SECTION("nothing, over and over") {
    for (int i = 0; i < 32; ++i) reader.Send(RecordType::kData, {});
    reader.Send(RecordType::kData, {7});
    CHECK(reader.Read().bytes == 1);
    for (int i = 0; i < 33; ++i) reader.Send(RecordType::kData, {});
    reader.CheckEnds("too many TLS records without data", SSL_AD_UNEXPECTED_MESSAGE);
  }
  SECTION("more than a record may hold") {
    reader.Send({23, 3, 3, 0x40, 0x12});  // 2^14 + 18: a byte more than data, type and tag take
    reader.CheckEnds("no TLS record", SSL_AD_RECORD_OVERFLOW);
  }
  SECTION("something in the clear") {
    reader.Send({21, 3, 3, 0, 2, 2, 42});
    reader.CheckEnds("no TLS record", SSL_AD_UNEXPECTED_MESSAGE);
  }
}

TEST_CASE("net: a peer that waits for the rest of a record is told nothing in its middle") {
  Reader reader;
  Octets data(100'000, 'x');
  while (reader.records.Write(data, false).kind != Kind::kWaitWrite) continue;
  reader.Send({21, 3, 3, 0, 2, 2, 42});
  CHECK(reader.Read().kind == Kind::kEnded);
  CHECK(reader.records.Refused());
  const auto drain = [&] {
    ssize_t all = 0, n = 0;
    while ((n = recv(reader.sockets.ends[1], data.data(), data.size(), 0)) > 0) all += n;
    return all;
  };
  CHECK(drain() > 0);
  reader.records.Finish();
  CHECK(drain() == 0);
}

TEST_CASE("net: a writer whose socket is full goes on where it was") {
  SocketPair sockets;
  Records writer(sockets.ends[0], CipherOf('w', true), CipherOf('r', false));
  Records reader(sockets.ends[1], CipherOf('r', true), CipherOf('w', false));
  reader.ReadAhead();
  SeededRng rng(3);
  const Octets sent = RandomOctets(rng, 3'000'000);
  Octets came;
  size_t at = 0;
  int waits = 0;
  while (came.size() < sent.size()) {
    while (at < sent.size()) {
      const ChannelStep step = writer.Write(absl::MakeConstSpan(sent).subspan(at), false);
      REQUIRE(step.kind != Kind::kEnded);
      at += step.bytes;
      if (step.kind == Kind::kWaitWrite) {
        ++waits;
        break;
      }
    }
    Octets part(1 + rng.NextWord() % 40'000);
    const ChannelStep step = reader.Read(absl::MakeSpan(part));
    REQUIRE(step.kind != Kind::kEnded);
    came.insert(came.end(), part.begin(), part.begin() + static_cast<ptrdiff_t>(step.bytes));
  }
  CHECK(waits > 1);
  CHECK(came == sent);
}

}  // namespace gdf::net
