import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { selectSize } from "@muster/testkit";
import { makeRealisticPod } from "./realistic-pod.ts";

const PODS = selectSize(10_000, 200);
const ROUNDS = selectSize(3, 1);

/** Memory of a cache of pods: the informer with the watcher's projection, the informer with whole pods, and client-node's own, each in a process of its own. */
export async function compareMemory(): Promise<void> {
  const pods = Array.from({ length: PODS }, (_, at) => JSON.stringify(makeRealisticPod(at)));
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://server");
    response.writeHead(200, { "content-type": "application/json" });
    if (url.searchParams.has("watch")) {
      response.flushHeaders();
      return;
    }
    const limit = Number(url.searchParams.get("limit") ?? "0");
    const from = Number(url.searchParams.get("continue") ?? "0");
    const end = limit === 0 ? PODS : Math.min(PODS, from + limit);
    const metadata = { resourceVersion: "200000", ...(end < PODS && { continue: String(end) }) };
    response.write(`{"kind":"PodList","apiVersion":"v1","metadata":${JSON.stringify(metadata)},"items":[`);
    response.end(`${pods.slice(from, end).join(",")}]}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const url = `http://127.0.0.1:${address.port}`;

  const size = pods.reduce((sum, text) => sum + text.length, 0) / PODS;
  console.log(
    `${PODS} pods of ${Math.round(size)} bytes of JSON; bytes held for each pod, the median of ${ROUNDS} processes`,
  );
  const variants = ["client-node", "whole", "projected"] as const;
  const medians = new Map<string, number>();
  for (const variant of variants) {
    const each: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) each.push(await measure(variant, url));
    medians.set(variant, each.sort((one, two) => one - two)[Math.floor(ROUNDS / 2)] ?? 0);
  }
  const base = medians.get("client-node") ?? 1;
  for (const [variant, bytes] of medians) {
    console.log(
      `${variant.padEnd(12)} ${Math.round(bytes).toString().padStart(6)} bytes a pod  ratio ${(bytes / base).toFixed(3)}`,
    );
  }
  server.close();
  server.closeAllConnections();
}

async function measure(variant: string, url: string): Promise<number> {
  const child = fork(new URL("holder.process.ts", import.meta.url), [variant, url], {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [answer] = (await once(child, "message")) as [{ readonly pods: number; readonly bytes: number }];
  child.kill();
  await once(child, "close");
  const { pods: count, bytes } = answer;
  if (count !== PODS) throw new Error(`${variant} held ${count} pods`);
  return bytes / count;
}
