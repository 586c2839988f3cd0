import { describe, expect, it } from "vitest";
import { makeClusterTools } from "./cluster-tools.ts";
import { startExternalNats } from "./external-nats.ts";
import { buildSession } from "./installed-work.ts";
import { installMuster, SYSTEM } from "./installed-world.ts";

const real = process.env["MUSTER_E2E_KUBECONFIG"] ?? "";

describe.skipIf(real === "")("Muster on the real cluster with an external NATS", () => {
  it("runs a session to its end, and creates no server, authority or keys of NATS", { timeout: 600_000 }, async () => {
    await using tools = await makeClusterTools(real);
    await using nats = await startExternalNats(tools);
    const valuesFile = process.env["MUSTER_E2E_VALUES"];
    await using world = await installMuster({ kubeconfig: real, valuesFile, leaseEnv: {}, nats });
    expect(await world.muster("doctor")).not.toMatch(/✗|FAIL/);
    const file = await world.fileOf("session.json", buildSession("short", "workers", "process.exit(0)"));
    await world.muster(`run ${file}`);
    const made = await world.kubectl(`-n ${SYSTEM} get statefulsets,secrets,configmaps,services -o name`);
    expect(made.split("\n").filter((name) => /nats|keys/.test(name))).toEqual([]);
  });
});
