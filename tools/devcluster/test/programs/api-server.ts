import { startApiServer } from "../../src/index.ts";

/** An API server in a process of its own that keeps its state: `node api-server.ts DIRECTORY PORT`. Prints one line of JSON when it answers. */
const [directory = "", port = "0"] = process.argv.slice(2);
const { url, token, ca, kubeconfig } = await startApiServer({ directory, port: Number(port), persist: true });
process.stdout.write(`${JSON.stringify({ url, token, ca, kubeconfig })}\n`);
