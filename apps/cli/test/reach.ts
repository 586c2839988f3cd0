import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestNats } from "@muster/testkit";
import { startGateway } from "./a-gateway.ts";
import type { Way } from "./session-world.ts";

/** The way in which the tests of this file reach the services. */
let way: Way = "nats";

/** Makes the tests of later imported files reach the services through the gateway. */
export function reachThroughGateway(): void {
  way = "gateway";
}

/** The address and the token of NATS or a gateway, for the command. */
export type Reached = AsyncDisposable & { readonly url: string; readonly token: string };

export async function reachServices({ url, token }: Pick<TestNats, "url" | "token">): Promise<Reached> {
  if (way === "nats") return { url, token, [Symbol.asyncDispose]: () => Promise.resolve() };
  await using starting = new AsyncDisposableStack();
  const directory = await mkdtemp(join(tmpdir(), "muster-reach-"));
  starting.defer(() => rm(directory, { recursive: true, force: true }));
  const gateway = starting.use(await startGateway({ url, token }, directory));
  const all = starting.move();
  return { url: gateway.url, token: gateway.token, [Symbol.asyncDispose]: () => all.disposeAsync() };
}
