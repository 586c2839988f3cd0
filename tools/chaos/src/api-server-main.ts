import { once } from "node:events";
import { writeFile } from "node:fs/promises";
import { startApiServer } from "@muster/devcluster";
import { readApiServerArguments } from "./api-server-process.ts";

// An API server in its own process, which can be killed and restarted on its stored state.
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.abort());
process.once("disconnect", () => stop.abort());

const { directory, port, accessFile } = readApiServerArguments(process.argv.slice(2));
await using server = await startApiServer({ directory, port, persist: true });
await writeFile(accessFile, JSON.stringify(server.kubelet), { mode: 0o600 });
process.stdout.write(`${JSON.stringify({ kubeconfig: server.kubeconfig, port: server.port })}\n`);
if (!stop.signal.aborted) await once(stop.signal, "abort");
if (process.connected) process.disconnect();
