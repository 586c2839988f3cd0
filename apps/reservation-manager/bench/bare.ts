import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { TestNats } from "@muster/testkit";
import { connectUser } from "../test/managers.ts";

export type BareServer = AsyncDisposable & { readonly ask: (request: Uint8Array) => Promise<unknown> };

/** Starts a process that answers each request with `replyBytes` bytes, and a client for it. */
export async function startBare(server: TestNats, replyBytes: number): Promise<BareServer> {
  const main = fileURLToPath(new URL("bare.process.ts", import.meta.url));
  const env = {
    PATH: process.env["PATH"],
    BENCH_NATS_URL: server.url,
    BENCH_NATS_TOKEN: server.token,
    BENCH_REPLY_BYTES: String(replyBytes),
  };
  const child = spawn(process.execPath, [main], { stdio: ["pipe", "pipe", "inherit"], env });
  await once(child.stdout, "data");
  const { connection } = await connectUser(server);
  return {
    ask: (request) => connection.request("bench.bare", request, { timeout: 5000 }),
    [Symbol.asyncDispose]: async () => {
      await connection.close();
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}
