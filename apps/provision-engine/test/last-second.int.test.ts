import { connectNats } from "@muster/bus";
import { buildOrderBytes, buildRenewalBytes, isOver } from "@muster/leases";
import { digest, verifySignature } from "@muster/leases/keys";
import { openView } from "@muster/store";
import { startTestNats, until } from "@muster/testkit";
import { expect, it } from "vitest";
import { NO_PODS } from "../src/adapters/crash-watch.ts";
import { makeRecords, openLeases } from "../src/adapters/records.ts";
import { readConfig } from "../src/config.ts";
import { makeOrder } from "./a-lease.ts";
import { runEngine } from "../src/lead/engine.ts";
import { openLeaseRegistry } from "../src/holdings/lease-registry.ts";
import { makeOrderSecrets } from "../src/holdings/order-secrets.ts";
import { renewLease, takeOrder } from "../src/orders/requests.ts";
import { DEBUG_WORKLOAD } from "../src/types/debug.ts";
import { makeUser, ENGINE_KEY, engineSigner, LONG } from "./engine-world.ts";

it("a lease renewed in its last nanosecond lasts strictly until its new end, and cannot be renewed after it", async () => {
  await using nats = await startTestNats();
  await using bus = await connectNats({ url: nats.url, token: nats.token, name: "test" });
  const bucket = await openLeases(bus.connection);
  await using view = await openView(bucket);
  const records = makeRecords(bucket);
  const config = readConfig({ PROVISION_KEY: ENGINE_KEY });
  const user = makeUser();
  const [createdNs, durationNs] = [1_000_000_000n, 10_000_000_000n];
  const endNs = createdNs + durationNs;
  let nowNs = createdNs;
  const holdings = openLeaseRegistry({}, {});
  const requests = {
    records,
    holdings,
    nowNs: () => nowNs,
    verify: verifySignature,
    digest,
    policy: config.order,
    quota: config.quota,
  };
  const stop = new AbortController();
  const engine = runEngine(
    {
      engine: "main",
      view,
      records,
      history: { publish: () => Promise.resolve() },
      feedback: () => Promise.resolve(),
      holdings,
      workloads: new Map([["debug", DEBUG_WORKLOAD]]),
      secrets: makeOrderSecrets(engineSigner, { unsealed: false }),
      crashes: NO_PODS,
      grants: { onGrant: () => () => undefined },
      sign: (result) => ({ ...result, signature: new Uint8Array(64) }),
      digest,
      nowNs: () => nowNs,
      policy: config.engine,
      report: {
        failed: () => undefined,
        defect: (_id, error) => expect.fail(String(error)),
        planned: () => undefined,
        stuck: () => undefined,
      },
    },
    { token: 1, signal: stop.signal, lost: new AbortController().signal, isHeld: () => true },
  );
  const stored = async () => (await records.get("1-1"))?.record;
  const reaches = (phase: string) => until(phase, async () => (await stored())?.phase === phase, LONG);
  const order = makeOrder({ user: user.userId, createdNs, durationNs });
  const signed = { ...order, signature: user.sign(buildOrderBytes(order)) };
  const send = () => takeOrder(requests, { order: signed, requestId: "o", source: "nats", dryRun: false });
  /** Repeats its order, so that the engine makes a pass at this time. */
  const looksAt = async (atNs: bigint): Promise<void> => {
    nowNs = atNs;
    const ordered = await send();
    const revision = "stored" in ordered ? ordered.stored.revision : Infinity;
    await until(`it is looked at ${atNs}`, () => (view.get("1-1")?.revision ?? 0) >= revision, LONG);
  };
  const renewal = (expiresAtNs: bigint, sequence: number) => {
    const content = {
      id: "1-1",
      engine: "main",
      user: user.userId,
      expiresAtNs,
      sequence,
      signature: new Uint8Array(),
    };
    return { ...content, signature: user.sign(buildRenewalBytes(content, order)) };
  };
  try {
    await send();
    await reaches("ACTIVE");
    await looksAt(endNs);
    expect(isOver(endNs, nowNs)).toBe(false);
    await renewLease(requests, "r-1", renewal(endNs + 5n, 1));
    await looksAt(endNs + 1n);
    await looksAt(endNs + 5n);
    expect(await stored()).toMatchObject({ phase: "ACTIVE", expiresAtNs: endNs + 5n });
    nowNs = endNs + 6n;
    await expect(renewLease(requests, "r-2", renewal(endNs + 50n, 2))).rejects.toThrow("is over");
    await looksAt(nowNs);
    await reaches("ENDED");
    expect((await stored())?.ending).toMatchObject({ cause: "EXPIRED", atNs: endNs + 6n });
  } finally {
    stop.abort();
    await engine;
  }
}, 300_000);
