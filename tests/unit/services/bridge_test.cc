#include "gdfd/services/bridge.h"

#include <thread>

#include "tests/support/test_network.h"

namespace gdf::services {
namespace {

using testing::LoopThread;

// Never ends by itself; tells when it has begun.
Task<absl::Status> Forever(Executor& executor, absl::Notification* begun) {
  begun->Notify();
  OneShot<bool> never(executor);
  co_await never.Wait();
  co_return absl::OkStatus();
}

TEST_CASE("A bridge that closes tells those who wait, and those who come after") {
  LoopThread loop;
  auto bridge = std::make_unique<Bridge>(loop.executor());
  absl::Notification begun;
  absl::Status waited;
  std::thread caller([&] {
    waited = bridge->Await<absl::Status>([&] { return Forever(loop.executor(), &begun); });
  });
  begun.WaitForNotification();
  bridge->CloseAfter(absl::ZeroDuration());
  caller.join();
  CHECK(absl::IsCancelled(waited));
  absl::Notification never_begun;
  CHECK(absl::IsCancelled(
      bridge->Await<absl::Status>([&] { return Forever(loop.executor(), &never_begun); })));
  CHECK_FALSE(never_begun.HasBeenNotified());
  CHECK(bridge->OnExecutor([] { return 7; }) == 7);  // those who go may still look
  loop.On([&] { bridge.reset(); });
}

}  // namespace
}  // namespace gdf::services
