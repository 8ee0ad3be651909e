#include "core/net/method_table.h"

#include "absl/strings/str_cat.h"
#include "core/base/check.h"
#include "core/base/text.h"

namespace gdf::net {

MethodTable::Slot::~Slot() {
  if (!running_) return;  // moved from
  const auto it = running_->find(peer_);
  if (--it->second == 0) running_->erase(it);
}

Registration MethodTable::Add(std::string method, Transport::StreamHandler handler,
                              MethodOptions options) {
  GDF_CHECK(!method.empty() && method.size() <= kMaxMethodBytes);
  auto entry = std::make_unique<Method>(executor_, std::move(handler), options);
  const bool fresh = methods_->emplace(method, std::move(entry)).second;
  GDF_CHECK(fresh);
  return Registration([weak = std::weak_ptr(methods_), method = std::move(method)] {
    const std::shared_ptr<Methods> methods = weak.lock();
    if (!methods) return;
    // Out of the table first: the handlers' destructors may look at it.
    const auto doomed = methods->extract(method);
  });
}

absl::StatusOr<MethodOptions> MethodTable::Check(std::string_view method, const NodeId& peer,
                                                 Admission admission) const {
  const auto it = methods_->find(method);
  const bool known = it != methods_->end();
  // A stranger does not learn which closed methods exist.
  if (admission != Admission::kMember && !(known && it->second->options.open_to_strangers)) {
    return absl::PermissionDeniedError(absl::StrCat("node ", peer.Short(), " may not call ",
                                                    ToAbsl(method),
                                                    ": it is not a member of the network"));
  }
  if (!known) {
    return absl::UnimplementedError(absl::StrCat("this node does not serve ", ToAbsl(method)));
  }
  const Method& entry = *it->second;
  const auto running = entry.running->find(peer);
  if (running != entry.running->end() && running->second >= entry.options.max_concurrent_per_peer) {
    return absl::ResourceExhaustedError(
        absl::StrCat("node ", peer.Short(), " has ", running->second, " streams of ",
                     ToAbsl(method), " open, as many as it may; retry when one has ended"));
  }
  return entry.options;
}

void MethodTable::Run(std::string_view method, const NodeId& peer, std::unique_ptr<Stream> stream) {
  const auto it = methods_->find(method);
  GDF_CHECK(it != methods_->end());
  Method& entry = *it->second;
  entry.scope.Spawn(RunHandler(entry.handler, peer, std::move(stream), Slot(entry.running, peer)));
}

// `handler` is a parameter so that what it captures lives as long as the task it returns.
Task<void> MethodTable::RunHandler(Transport::StreamHandler handler, NodeId peer,
                                   std::unique_ptr<Stream> stream, [[maybe_unused]] Slot slot) {
  co_await handler(peer, std::move(stream));
}

}  // namespace gdf::net
