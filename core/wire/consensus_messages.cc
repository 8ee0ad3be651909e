#include "core/wire/consensus_messages.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "core/base/encoding.h"
#include "core/base/status_macros.h"
#include "core/wire/parse.h"
#include "core/wire/state_commands.h"
#include "proto/consensus.pb.h"

namespace gdf::wire {
namespace {

absl::Status CheckNumber(const char* name, uint64_t value, uint64_t limit) {
  if (value <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, ", at most ", limit, " is possible"));
}

// The numbers that every message has.
template <typename Message>
absl::Status CheckHeader(const Message& message) {
  GDF_RETURN_IF_ERROR(CheckNumber("since", message.since(), kMaxLogIndex));
  return CheckNumber("term", message.term(), kMaxTerm);
}

using Entries = google::protobuf::RepeatedPtrField<std::string>;

absl::StatusOr<std::vector<std::string>> Take(Entries& entries) {
  GDF_RETURN_IF_ERROR(CheckNumber("entries", static_cast<uint64_t>(entries.size()), kMaxEntriesPerCall));
  for (const std::string& entry : entries) {
    GDF_RETURN_IF_ERROR(CheckNumber("bytes of an entry", entry.size(), kMaxCommandBytes));
  }
  return std::vector<std::string>(std::make_move_iterator(entries.begin()), std::make_move_iterator(entries.end()));
}

void Put(const LogPart& part, v1::LogPart* to) {
  to->set_after(part.after);
  to->set_chain(Raw(part.chain));
  for (const std::string& entry : part.entries) to->add_entries(entry);
}

absl::StatusOr<LogPart> Take(v1::LogPart& from) {
  LogPart part;
  part.after = from.after();
  GDF_RETURN_IF_ERROR(CheckNumber("after", part.after, kMaxLogIndex));
  GDF_ASSIGN_OR_RETURN(part.chain, Digest::FromBytes(from.chain()));
  GDF_ASSIGN_OR_RETURN(part.entries, Take(*from.mutable_entries()));
  return part;
}

template <typename Message>
absl::StatusOr<std::optional<LogPart>> TakeNews(Message& from) {
  if (!from.has_news()) return std::nullopt;
  GDF_ASSIGN_OR_RETURN(LogPart news, Take(*from.mutable_news()));
  return news;
}

}  // namespace

std::string Encode(const VoteCall& message) {
  v1::VoteCall out;
  out.set_since(message.since);
  out.set_term(message.term);
  out.set_trial(message.trial);
  out.set_accepted(message.accepted);
  out.set_last(message.last);
  out.set_applied(message.applied);
  return out.SerializeAsString();
}

std::string Encode(const VoteAnswer& message) {
  v1::VoteAnswer out;
  out.set_since(message.since);
  out.set_term(message.term);
  out.set_granted(message.granted);
  if (message.news) Put(*message.news, out.mutable_news());
  return out.SerializeAsString();
}

std::string Encode(const LeadCall& message) {
  v1::LeadCall out;
  out.set_since(message.since);
  out.set_term(message.term);
  Put(message.decided, out.mutable_decided());
  for (const std::string& entry : message.tail) out.add_tail(entry);
  out.set_whole(message.whole);
  out.set_applied(message.applied);
  return out.SerializeAsString();
}

std::string Encode(const LeadAnswer& message) {
  v1::LeadAnswer out;
  out.set_since(message.since);
  out.set_term(message.term);
  out.set_applied(message.applied);
  out.set_holds(message.holds);
  if (message.news) Put(*message.news, out.mutable_news());
  return out.SerializeAsString();
}

absl::StatusOr<VoteCall> DecodeVoteCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::VoteCall in, ParseMessage<v1::VoteCall>(bytes, "vote call"));
  GDF_RETURN_IF_ERROR(CheckHeader(in));
  GDF_RETURN_IF_ERROR(CheckNumber("accepted", in.accepted(), kMaxTerm));
  GDF_RETURN_IF_ERROR(CheckNumber("last", in.last(), kMaxLogIndex));
  GDF_RETURN_IF_ERROR(CheckNumber("applied", in.applied(), kMaxLogIndex));
  return VoteCall{in.since(), in.term(), in.trial(), in.accepted(), in.last(), in.applied()};
}

absl::StatusOr<VoteAnswer> DecodeVoteAnswer(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::VoteAnswer in, ParseMessage<v1::VoteAnswer>(bytes, "vote answer"));
  GDF_RETURN_IF_ERROR(CheckHeader(in));
  VoteAnswer out{in.since(), in.term(), in.granted(), std::nullopt};
  GDF_ASSIGN_OR_RETURN(out.news, TakeNews(in));
  return out;
}

absl::StatusOr<LeadCall> DecodeLeadCall(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::LeadCall in, ParseMessage<v1::LeadCall>(bytes, "lead call"));
  GDF_RETURN_IF_ERROR(CheckHeader(in));
  GDF_RETURN_IF_ERROR(CheckNumber("applied", in.applied(), kMaxLogIndex));
  LeadCall out;
  out.since = in.since();
  out.term = in.term();
  GDF_ASSIGN_OR_RETURN(out.decided, Take(*in.mutable_decided()));
  GDF_ASSIGN_OR_RETURN(out.tail, Take(*in.mutable_tail()));
  out.whole = in.whole();
  out.applied = in.applied();
  return out;
}

absl::StatusOr<LeadAnswer> DecodeLeadAnswer(std::string_view bytes) {
  GDF_ASSIGN_OR_RETURN(v1::LeadAnswer in, ParseMessage<v1::LeadAnswer>(bytes, "lead answer"));
  GDF_RETURN_IF_ERROR(CheckHeader(in));
  GDF_RETURN_IF_ERROR(CheckNumber("applied", in.applied(), kMaxLogIndex));
  GDF_RETURN_IF_ERROR(CheckNumber("holds", in.holds(), kMaxLogIndex));
  LeadAnswer out{in.since(), in.term(), in.applied(), in.holds(), std::nullopt};
  GDF_ASSIGN_OR_RETURN(out.news, TakeNews(in));
  return out;
}

}  // namespace gdf::wire
