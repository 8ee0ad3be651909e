// The methods a node serves: their limits, and the handlers that run. On the executor only.
#ifndef GDF_CORE_NET_METHOD_TABLE_H_
#define GDF_CORE_NET_METHOD_TABLE_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "core/base/task.h"
#include "core/net/transport.h"

namespace gdf::net {

class MethodTable {
 public:
  explicit MethodTable(Executor& executor)
      : executor_(executor), methods_(std::make_shared<Methods>()) {}

  // As Transport::HandleStream. The Registration may outlive the table.
  Registration Add(std::string method, Transport::StreamHandler handler, MethodOptions options);

  // Whether `peer` may open one more stream of `method`: kUnimplemented, kPermissionDenied,
  // kResourceExhausted, or the method's options.
  absl::StatusOr<MethodOptions> Check(std::string_view method, const NodeId& peer,
                                      Admission admission) const;
  // Starts the handler of a stream for which Check() passed in this same step of the executor.
  void Run(std::string_view method, const NodeId& peer, std::unique_ptr<Stream> stream);
  // Unregisters everything.
  void Clear() { methods_->clear(); }

 private:
  using Running = std::map<NodeId, int>;
  struct Method {
    Method(Executor& executor, Transport::StreamHandler h, MethodOptions o)
        : handler(std::move(h)), options(o), scope(executor) {}
    const Transport::StreamHandler handler;
    const MethodOptions options;
    const std::shared_ptr<Running> running = std::make_shared<Running>();
    TaskScope scope;
  };
  using Methods = std::map<std::string, std::unique_ptr<Method>, std::less<>>;

  // Counts one handler for as long as its frame lives.
  class Slot {
   public:
    Slot(std::shared_ptr<Running> running, NodeId peer)
        : running_(std::move(running)), peer_(peer) {
      ++(*running_)[peer_];
    }
    Slot(Slot&&) = default;
    ~Slot();

   private:
    std::shared_ptr<Running> running_;
    NodeId peer_;
  };
  static Task<void> RunHandler(Transport::StreamHandler handler, NodeId peer,
                               std::unique_ptr<Stream> stream, Slot slot);

  Executor& executor_;
  std::shared_ptr<Methods> methods_;
};

}  // namespace gdf::net

#endif  // GDF_CORE_NET_METHOD_TABLE_H_
