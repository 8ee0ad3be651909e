#include <catch2/catch.hpp>

#include "core/rounds/receipts.h"

namespace gdf::rounds {
namespace {

constexpr JobId kJob{7};
const Digest kSubmission = HashBytes("submission");

trust::NodeKey Key(uint8_t i) {
  trust::NodeKey::Seed seed{};
  seed[0] = i;
  return trust::NodeKey::FromSeed(seed);
}

wire::Receipt ReceiptOf(int voters) {
  wire::Receipt receipt;
  receipt.tag = {kJob, Epoch{2}, RoundId{5}, 1};
  for (int i = 0; i < voters; ++i) receipt.voters.push_back(Key(static_cast<uint8_t>(i)).id());
  receipt.contributions = {{receipt.voters[0], 64}};
  receipt.start_theta = HashBytes("start");
  receipt.result = {RoundId{6}, HashBytes("theta"), HashBytes("momentum"), {0, 12}};
  return receipt;
}

wire::Commit CommitBy(const wire::Receipt& receipt, std::initializer_list<int> signers) {
  wire::Commit commit{receipt, {}};
  for (const int signer : signers) commit.signatures.push_back(SignReceipt(Key(static_cast<uint8_t>(signer)), kSubmission, receipt));
  return commit;
}

// Of the epoch that was opened with the receipt's voters.
absl::Status Verify(const wire::Commit& commit, JobId job = kJob) {
  return VerifyCommit(commit, job, kSubmission, commit.receipt.voters);
}

TEST_CASE("a majority of the voters commits: 1 of 1, 2 of 2, 2 of 3, 3 of 4, 3 of 5") {
  CHECK(Verify(CommitBy(ReceiptOf(1), {0})).ok());
  CHECK_FALSE(Verify(CommitBy(ReceiptOf(2), {0})).ok());
  CHECK(Verify(CommitBy(ReceiptOf(2), {0, 1})).ok());
  CHECK_FALSE(Verify(CommitBy(ReceiptOf(3), {0})).ok());
  CHECK(Verify(CommitBy(ReceiptOf(3), {0, 2})).ok());
  CHECK_FALSE(Verify(CommitBy(ReceiptOf(4), {0, 2})).ok());
  CHECK(Verify(CommitBy(ReceiptOf(4), {0, 2, 3})).ok());
  CHECK_FALSE(Verify(CommitBy(ReceiptOf(5), {0, 2})).ok());
  CHECK(Verify(CommitBy(ReceiptOf(5), {4, 2, 1})).ok());
}

TEST_CASE("a voter counts once, a stranger not at all") {
  CHECK(absl::IsPermissionDenied(Verify(CommitBy(ReceiptOf(3), {0, 0, 0}))));
  CHECK(absl::IsPermissionDenied(Verify(CommitBy(ReceiptOf(3), {0, 7, 8}))));
  CHECK(Verify(CommitBy(ReceiptOf(3), {7, 0, 0, 1})).ok());
  const absl::Status status = Verify(CommitBy(ReceiptOf(3), {0, 7}));
  CHECK(status.message() == "the commit of j7 epoch 2 round 6 attempt 1 has 1 signatures of its 3 voters, expected 2");
}

TEST_CASE("a commit of another job, and one without voters, are refused") {
  CHECK(absl::IsInvalidArgument(Verify(CommitBy(ReceiptOf(1), {0}), JobId{8})));
  wire::Receipt nobody = ReceiptOf(1);
  nobody.voters.clear();
  CHECK(absl::IsPermissionDenied(Verify(CommitBy(nobody, {0}))));
}

TEST_CASE("the voters are the members that the epoch was opened with, not those that the receipt names") {
  const std::vector<NodeId> members = ReceiptOf(4).voters;
  CHECK(VerifyCommit(CommitBy(ReceiptOf(4), {0, 1, 2}), kJob, kSubmission, members).ok());
  for (const int voters : {1, 3, 5}) {
    const absl::Status status = VerifyCommit(CommitBy(ReceiptOf(voters), {0, 1, 2, 3, 4}), kJob, kSubmission, members);
    CHECK(absl::IsPermissionDenied(status));
    CHECK(status.message() == "the voters of j7 epoch 2 round 6 attempt 1 are not the epoch's members");
  }
}

TEST_CASE("every field of a receipt is under the signature") {
  const wire::Receipt receipt = ReceiptOf(3);
  const wire::Commit commit = CommitBy(receipt, {0, 1});
  std::vector<wire::Receipt> changed(13, receipt);
  changed[0].tag.job = JobId{8};
  changed[1].tag.epoch = Epoch{3};
  changed[2].tag.round = RoundId{6};
  changed[3].tag.attempt = 2;
  changed[4].voters.pop_back();
  std::swap(changed[5].voters[0], changed[5].voters[1]);
  changed[6].contributions.push_back({receipt.voters[1], 64});
  changed[7].contributions[0].tokens = 65;
  changed[8].start_theta = HashBytes("x");
  changed[9].result.round = RoundId{7};
  changed[10].result.theta = HashBytes("x");
  changed[11].result.momentum = HashBytes("x");
  changed[12].result.cursor.position = 13;
  for (size_t i = 0; i < changed.size(); ++i) {
    INFO("change " << i);
    CHECK(absl::IsPermissionDenied(VerifySignature(changed[i], kSubmission, commit.signatures[0], receipt.voters[0])));
  }
  CHECK(VerifySignature(receipt, kSubmission, commit.signatures[0], receipt.voters[0]).ok());
  // A job of the same number, epoch and members elsewhere.
  const Digest other = HashBytes("another submission");
  CHECK(absl::IsPermissionDenied(VerifySignature(receipt, other, commit.signatures[0], receipt.voters[0])));
  CHECK(absl::IsPermissionDenied(VerifyCommit(commit, kJob, other, receipt.voters)));
  CHECK(absl::IsPermissionDenied(VerifySignature(receipt, kSubmission, commit.signatures[0], receipt.voters[1])));
}

}  // namespace
}  // namespace gdf::rounds
