import { expect, it } from "vitest";
import type { ConnectedCli } from "../cli.ts";
import { CommandError } from "../command-error.ts";
import { EXIT } from "../domain/decide-exit.ts";
import { POOL } from "./pool.ts";

const ELASTIC = { name: "elastic", elasticMax: 8, unusableByReason: [] };

function connected(dumpNodes: () => unknown): ConnectedCli {
  const link = { client: () => ({ dumpNodes }), stop: new AbortController().signal };
  return { services: { pools: () => Promise.resolve([ELASTIC]) }, link } as unknown as ConnectedCli;
}

it("lists elastic pools through a gateway, which does not serve the state of the scaler", async () => {
  const unserved = connected(() => {
    throw new CommandError(EXIT.usage, "the call needs NATS");
  });
  const pools = await POOL.list(unserved);
  expect(pools).toEqual([{ ...ELASTIC, scaling: undefined }]);
  expect(POOL.notes?.(pools, 0)).toEqual([]);
});

it("throws a defect of the call", async () => {
  const broken = connected(() => {
    throw new Error("a defect");
  });
  await expect(POOL.list(broken)).rejects.toThrow("a defect");
});
