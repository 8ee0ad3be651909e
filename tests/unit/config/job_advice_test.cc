#include "core/config/job_advice.h"

#include <catch2/catch.hpp>

namespace gdf::config {
namespace {

// Of two sites, which have an effect.
JobSpec BySites() {
  JobSpec spec;
  spec.rounds.codecs = {{CodecKind::kInt8, 256}};
  spec.nodes.min = spec.nodes.max = 4;
  spec.nodes.site_source = SiteSource::kNamed;
  spec.nodes.sites = {{"ann", "bob"}, {"cem", "dora"}};
  return spec;
}

std::string WarningOf(const JobSpec& spec) {
  const std::vector<std::string> warnings = Warnings(spec);
  REQUIRE(warnings.size() <= 1);
  return warnings.empty() ? "" : warnings[0];
}

TEST_CASE("sites that no exchange can go by are warned of") {
  JobSpec spec = BySites();
  CHECK(WarningOf(spec) == "");
  SECTION("codecs that know no sites") {
    spec.rounds.codecs = {{CodecKind::kTopK2, 0, 64}};
    CHECK(WarningOf(spec) == "nodes.sites has no effect: codec topk2:64 goes whole to every node");
    spec.rounds.codecs.push_back({CodecKind::kInt8, 256});
    CHECK(WarningOf(spec) == "");
    spec.rounds = {};
    spec.rounds.rank = 4;  // its factors go as fp32
    spec.rounds.codecs = {{CodecKind::kFp32}};
    CHECK(WarningOf(spec) == "");
  }
  SECTION("too few nodes") {
    spec.nodes.min = spec.nodes.max = 2;
    CHECK(WarningOf(spec) == "nodes.sites has no effect: the job has at most 2 of the 3 nodes that it takes");
    spec.nodes.max = 3;
    CHECK(WarningOf(spec) == "");
  }
  SECTION("sites of one node each") {
    spec.nodes.sites = {{"ann"}, {"bob"}};
    CHECK(WarningOf(spec) == "nodes.sites has no effect: none has two nodes");
  }
  SECTION("one site") {
    spec.nodes.sites = {{"ann", "bob", "cem"}};
    CHECK(WarningOf(spec) == "");  // others may be elsewhere
    spec.nodes.where = {"ann", "bob", "cem"};
    CHECK(WarningOf(spec) == "nodes.sites has no effect: one has all the nodes of nodes.where");
    spec.nodes.where.push_back("dora");
    CHECK(WarningOf(spec) == "");
  }
  SECTION("measured ones may have none") {
    spec.nodes.site_source = SiteSource::kMeasured;
    spec.nodes.max = 1;
    CHECK(WarningOf(spec) == "");
  }
}

}  // namespace
}  // namespace gdf::config
