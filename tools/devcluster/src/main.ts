import { once } from "node:events";
import { fstatSync } from "node:fs";
import { startDevCluster } from "./dev-cluster.ts";
import { readDevClusterArguments } from "./dev-cluster-arguments.ts";

const stop = new AbortController();
const end = (): void => {
  stop.abort();
};
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, end);
// The parent may be killed without a signal to this process; its channel or pipe then ends.
process.once("disconnect", end);
const input = fstatSync(0);
if (input.isFIFO() || input.isSocket()) process.stdin.resume().once("close", end);

const log = (fields: object): void => {
  process.stderr.write(`${JSON.stringify({ time: new Date().toISOString(), ...fields })}\n`);
};
try {
  const { PATH: path } = process.env;
  await using cluster = await startDevCluster({
    ...readDevClusterArguments(process.argv.slice(2)),
    ...(path === undefined ? {} : { path }),
    onError: (error, doing) => {
      log({ level: "warn", msg: doing, error: String(error) });
    },
  });
  const nodes = cluster.nodes.map((node) => node.nodeName);
  const { machines, kubeconfig, server } = cluster;
  const cloud = machines === undefined ? {} : { machines: { url: machines.url, tokenFile: machines.tokenFile } };
  process.stdout.write(`${JSON.stringify({ kubeconfig, url: server.url, nodes, ...cloud })}\n`);
  if (!stop.signal.aborted) await once(stop.signal, "abort");
} catch (error) {
  log({ level: "error", msg: "the cluster ended", error: String(error) });
  process.exitCode = 1;
}
process.stdin.destroy();
if (process.connected) process.disconnect();
