import { describe, expect, it } from "vitest";
import { makeReplicaSet } from "../../test/a-replica-set.ts";
import { buildSetDescription, buildSetTable } from "./build-set-views.ts";

const STYLE = { columns: 200, colours: false };

describe.each([
  ["WAITING_FOR_MACHINE", "it is waiting for a machine of pool gpu: POOL_AVAILABILITY"],
  ["MACHINE_REFUSED", "no machine of pool gpu: it has 2"],
  ["LEDGER_AWAY", "the ledger does not answer"],
])("a set on a pool with the trouble %s", (code, message) => {
  const spec = { ...makeReplicaSet().spec, nodeSelector: "", pool: "gpu" };
  const set = makeReplicaSet({ spec, trouble: { code, message, sinceMs: 0 } });

  it("reports the trouble in the list", () => {
    expect(buildSetTable([set], [], 0, STYLE).at(1)).toMatch(new RegExp(`TROUBLED .*${code}: ${message}$`));
  });

  it("reports the trouble and the pool in its description", () => {
    const lines = buildSetDescription(set, STYLE).map((line) => line.replaceAll(/ +/g, " "));
    expect(lines).toContain(`trouble ${code}: ${message}`);
    expect(lines).toContain("phase TROUBLED");
    expect(lines.find((line) => line.startsWith("nodes "))).toMatch(/^nodes machines of pool gpu; \d+ eligible$/);
  });
});
