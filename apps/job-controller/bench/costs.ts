import { readFile } from "node:fs/promises";
import type { KubeConfig } from "@kubernetes/client-node";
import { openGet } from "@muster/kube";

/** Processor seconds by process, and requests to the API server by verb and resource. */
export type Costs = {
  readonly cpuSeconds: ReadonlyMap<string, number>;
  readonly requests: ReadonlyMap<string, number>;
};

/** Reads the costs of this process and all its descendants, by the names with which they were started. Only a real kube-apiserver counts requests. */
export async function readCosts(config: KubeConfig): Promise<Costs> {
  const cpuSeconds = new Map<string, number>();
  await addProcessorTime(process.pid, cpuSeconds);
  return { cpuSeconds, requests: await countRequests(config) };
}

/** Returns the growth of each cost, and omits costs that did not grow. */
export function computeCostsSince(before: Costs, after: Costs): Costs {
  return {
    cpuSeconds: difference(before.cpuSeconds, after.cpuSeconds),
    requests: difference(before.requests, after.requests),
  };
}

function difference(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): Map<string, number> {
  const more = [...after].map(([name, value]): [string, number] => [name, value - (before.get(name) ?? 0)]);
  return new Map(more.filter(([, value]) => value > 0));
}

async function addProcessorTime(pid: number, sums: Map<string, number>): Promise<void> {
  const name = await nameOf(pid);
  sums.set(name, (sums.get(name) ?? 0) + (await cpuSecondsOf(pid)));
  const children = await readFile(`/proc/${pid}/task/${pid}/children`, "utf8");
  for (const child of children.split(" ").filter((each) => each !== "")) await addProcessorTime(Number(child), sums);
}

/** Returns the app name of our own processes, and the program name of others. */
async function nameOf(pid: number): Promise<string> {
  const words = (await readFile(`/proc/${pid}/cmdline`, "utf8")).split("\0");
  const [program = ""] = words;
  const script = words.find((word) => word.endsWith(".ts"));
  return /apps\/([^/]+)\/src\/main\.ts$/.exec(script ?? "")?.[1] ?? (script ?? program).replace(/.*\//, "");
}

/** Sums user and system time. */
async function cpuSecondsOf(pid: number): Promise<number> {
  const fields = (await readFile(`/proc/${pid}/stat`, "utf8")).split(") ")[1]?.split(" ") ?? [];
  return (Number(fields[11]) + Number(fields[12])) / 100;
}

const LINE = /^apiserver_request_total\{(.*)\} ([\d.e+]+)$/;

async function countRequests(config: KubeConfig): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  const text = await readMetrics(config).catch(() => "");
  for (const line of text.split("\n")) {
    const [, labels = "", count = "0"] = LINE.exec(line) ?? [];
    const label = (name: string): string => new RegExp(`\\b${name}="([^"]*)"`).exec(labels)?.[1] ?? "";
    const [verb, resource, subresource] = [label("verb"), label("resource"), label("subresource")];
    if (resource === "" || verb === "WATCH" || count === "0") continue;
    const name = `${verb} ${resource}${subresource === "" ? "" : `/${subresource}`}`;
    counts.set(name, (counts.get(name) ?? 0) + Number(count));
  }
  return counts;
}

async function readMetrics(config: KubeConfig): Promise<string> {
  const answer = await openGet(config, "/metrics", {}, AbortSignal.timeout(10_000));
  return (await answer.setEncoding("utf8").toArray()).join("");
}
