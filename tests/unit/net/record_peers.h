// Two ends of one TLS connection's records over a pair of sockets that do not block.
#ifndef GDF_TESTS_UNIT_NET_RECORD_PEERS_H_
#define GDF_TESTS_UNIT_NET_RECORD_PEERS_H_

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "core/base/check.h"
#include "core/net/record_cipher.h"

namespace gdf::net {

struct SocketPair {
  SocketPair() { GDF_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0); }
  ~SocketPair() {
    for (const int end : ends) close(end);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  int ends[2] = {};
};

// A suite by its number in RFC 8446, appendix B.4: 1 AES-128-GCM, 2 AES-256-GCM, 3 ChaCha20-Poly1305.
inline const SSL_CIPHER* SuiteOf(uint8_t number) {
  static SSL_CTX* const context = SSL_CTX_new(TLS_method());
  static SSL* const session = SSL_new(context);
  const uint8_t bytes[2] = {0x13, number};
  return SSL_CIPHER_find(session, bytes);
}

// With a secret of equal bytes, as both ends of a direction must have.
inline RecordCipher CipherOf(uint8_t secret, bool seals) {
  return RecordCipher(SuiteOf(1), TrafficSecret(std::vector<uint8_t>(32, secret)), seals);
}

}  // namespace gdf::net

#endif  // GDF_TESTS_UNIT_NET_RECORD_PEERS_H_
