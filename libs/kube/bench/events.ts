import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import { selectSize } from "@muster/testkit";
import { makeRealisticPod } from "./realistic-pod.ts";

const PODS = selectSize(2000, 100);
const EVENTS = selectSize(10_000, 200);
const ROUNDS = selectSize(3, 1);
const VARIANTS = ["client-node", "informer", "informer and controller"] as const;

export type ReaderResult = { readonly events: number; readonly cpuMs: number; readonly wallMs: number };

/** Measures the cost of a change of a pod, from the wire to a callback or an empty pass. Each way runs in its own process. This process is the server. */
export async function compareEvents(): Promise<void> {
  const pods = Array.from({ length: PODS }, (_, at) => JSON.stringify(makeRealisticPod(at)));
  const items = pods.join(",");
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", "http://server");
    response.writeHead(200, { "content-type": "application/json" });
    if (url.searchParams.has("watch")) void sendChanges(response, pods);
    else
      response.end(`{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"200000"},"items":[${items}]}`);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  const url = `http://127.0.0.1:${address.port}`;

  const all = new Map<string, ReaderResult[]>(VARIANTS.map((variant) => [variant, []]));
  for (let round = 0; round < ROUNDS; round += 1) {
    for (const variant of VARIANTS) all.get(variant)?.push(await read(variant, url));
  }
  const bytes = Math.round(items.length / PODS);
  console.log(`${EVENTS} changes of ${PODS} pods of ${bytes} bytes of JSON; the median of ${ROUNDS} processes each`);
  const base = median((all.get("client-node") ?? []).map(({ cpuMs }) => cpuMs));
  for (const [variant, results] of all) {
    const cpuMs = median(results.map((result) => result.cpuMs));
    const rate = EVENTS / (median(results.map(({ wallMs }) => wallMs)) / 1000);
    console.log(
      `${variant.padEnd(24)} ${((cpuMs * 1000) / EVENTS).toFixed(1).padStart(6)} us of processor time a change  ${Math.round(rate).toString().padStart(6)}/s  ratio ${(cpuMs / base).toFixed(2)}`,
    );
  }
  server.close();
  server.closeAllConnections();
}

/** As fast as the reader takes them. */
async function sendChanges(response: ServerResponse, pods: readonly string[]): Promise<void> {
  for (let event = 0; event < EVENTS; event += 1) {
    const pod = (pods[event % PODS] ?? "").replace(/"resourceVersion":"\d+"/, `"resourceVersion":"${200_001 + event}"`);
    if (!response.write(`{"type":"MODIFIED","object":${pod}}\n`)) await once(response, "drain");
  }
}

async function read(variant: string, url: string): Promise<ReaderResult> {
  const child = fork(new URL("reader.process.ts", import.meta.url), [variant, url, String(EVENTS)]);
  const [answer] = (await once(child, "message")) as [ReaderResult];
  child.kill();
  await once(child, "close");
  if (answer.events < EVENTS) throw new Error(`${variant} saw ${answer.events} changes`);
  return answer;
}

function median(values: readonly number[]): number {
  return [...values].sort((one, two) => one - two)[Math.floor(values.length / 2)] ?? 0;
}
