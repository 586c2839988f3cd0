import { setMaxListeners } from "node:events";
import { findFault } from "@muster/faults";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { guardProvider } from "../src/adapters/guard-provider.ts";
import type { BootRequest, Instance, NodeProvider } from "../src/providers/provider.ts";

/** A real counterpart of a provider, with the operations that the provider itself lacks. */
export type ProviderWorld = AsyncDisposable & {
  readonly provider: NodeProvider;
  /** A boot that succeeds; the name is new each time. Its image is the result of `findImage(imageProperties)`. */
  readonly boot: BootRequest;
  readonly imageProperties: Readonly<Record<string, string>>;
  /** A boot of an unavailable type, and the zone in its answer. Undefined: the counterpart declares, in `describeProvider`, that it is never short. */
  readonly short: { readonly boot: BootRequest; readonly zone: string | undefined } | undefined;
  /** False if the counterpart does not recognize repeated orders by their token, so that concurrent ones cannot be tested. */
  readonly knowsTokens: boolean;
  /** Creates an instance of another scaler. */
  readonly makeForeign: () => Promise<void>;
  /** The ids of a missing instance, in the provider's format. */
  readonly unknown: Pick<Instance, "instanceId" | "nodeName">;
};

const never = new AbortController().signal;
setMaxListeners(0, never);

/** The promises of every provider, tested on one directly and behind the guard of the service. Each test leaves nothing behind. */
export function describeProvider(
  title: string,
  open: () => Promise<ProviderWorld>,
  options: { readonly canBeShort?: boolean } = {},
): void {
  describeOne(title, open, options);
  const limits = { timeoutMs: 60_000, maxCallsInFlight: 10, now: () => performance.now() };
  const openGuarded = async (): Promise<ProviderWorld> => {
    const world = await open();
    return { ...world, provider: guardProvider(world.provider, limits)(() => true) };
  };
  describeOne(`${title}, guarded`, openGuarded, options);
}

function describeOne(
  title: string,
  open: () => Promise<ProviderWorld>,
  { canBeShort = true }: { readonly canBeShort?: boolean },
): void {
  describe(`the provider ${title}`, () => {
    let world: ProviderWorld;
    let provider: NodeProvider;
    let count = 0;
    beforeAll(async () => {
      world = await open();
      ({ provider } = world);
    });
    afterAll(async () => {
      await world[Symbol.asyncDispose]();
    });

    const fresh = async (boot = world.boot): Promise<BootRequest> => {
      const nodeName = `conformance-${++count}`;
      const labels = { ...boot.labels, "muster.dev/node": nodeName };
      return { ...boot, nodeName, labels, image: await provider.findImage(world.imageProperties, never) };
    };
    const started = async (boot: BootRequest): Promise<string> => {
      const answer = await provider.start(boot, never);
      if (answer.kind !== "started") throw new Error(JSON.stringify(answer));
      return answer.instanceId;
    };
    const named = async (nodeName: string): Promise<readonly Instance[]> =>
      (await provider.list(never)).filter((instance) => instance.nodeName === nodeName);
    /** A provider may have lost the name of an ending instance, or have created it late: no instance at all may remain. */
    const nothingListed = (): Promise<unknown> =>
      until("nothing is listed", async () => {
        const listed = await provider.list(never);
        if (listed.length > 0) throw new Error(JSON.stringify(listed));
        return true;
      });

    it("lists an instance by its name and id until it was stopped and is gone", async () => {
      const boot = await fresh();
      const instanceId = await started(boot);
      const [instance, ...more] = await until(`${boot.nodeName} is listed`, async () => {
        const found = await named(boot.nodeName);
        return found.length > 0 && found;
      });
      expect(more).toEqual([]);
      expect(instance).toMatchObject({ instanceId, failure: undefined, lostAtMs: undefined });
      expect(["pending", "running"]).toContain(instance?.state);
      await provider.stop({ instanceId, nodeName: boot.nodeName }, never);
      await nothingListed();
    });

    it("creates one instance of one name, however often and concurrently it is started", async () => {
      const boot = await fresh();
      // The second caller may have to retry, but may not get a second instance.
      const together = await Promise.allSettled([started(boot), ...(world.knowsTokens ? [started(boot)] : [])]);
      const ids = new Set(together.flatMap((result) => (result.status === "fulfilled" ? [result.value] : [])));
      for (const result of together) {
        if (result.status === "rejected") expect(findFault(result.reason), String(result.reason)).toBeDefined();
      }
      ids.add(await started(boot));
      expect(ids.size).toBe(1);
      expect(await named(boot.nodeName)).toHaveLength(1);
      for (const instanceId of ids) await provider.stop({ instanceId, nodeName: boot.nodeName }, never);
      await nothingListed();
    });

    it("accepts the order to stop one instance twice, and once more after its end", async () => {
      const boot = await fresh();
      const instance = { instanceId: await started(boot), nodeName: boot.nodeName };
      await provider.stop(instance, never);
      await provider.stop(instance, never);
      await nothingListed();
      await provider.stop(instance, never);
    });

    it("stops an unknown instance without an error", async () => {
      await provider.stop(world.unknown, never);
    });

    it("does not list instances of other scalers", async () => {
      await world.makeForeign();
      await nothingListed();
    });

    if (canBeShort) {
      it("reports a shortage with the zone, and creates no instance", async () => {
        const { boot: wanted, zone } = world.short ?? expect.fail("the counterpart is short of nothing");
        const boot = await fresh(wanted);
        expect(await provider.start(boot, never)).toMatchObject({ kind: "no-capacity", zone });
        expect(await named(boot.nodeName)).toEqual([]);
      });
    }

    it("finds no image for a property that no image has", async () => {
      const search = provider.findImage({ ...world.imageProperties, name: "no-such-image" }, never);
      const answer = await search.catch((error: unknown) => findFault(error)?.code);
      // The answer is empty if the provider always chooses the image itself.
      expect(["", "not_found"]).toContain(answer);
    });

    it("does nothing after its signal has aborted, and throws the signal's reason", async () => {
      const boot = await fresh();
      const reason = new Error("the test has ended it");
      const signal = AbortSignal.abort(reason);
      await expect(provider.start(boot, signal)).rejects.toBe(reason);
      await expect(provider.list(signal)).rejects.toBe(reason);
      await expect(provider.stop(world.unknown, signal)).rejects.toBe(reason);
      expect(await named(boot.nodeName)).toEqual([]);
    });
  });
}
