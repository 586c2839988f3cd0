import { findNatsServer, startNatsServer } from "../src/index.ts";

/** Starts a server in the named directory, sends its parent the process id, and waits to be killed. */
const [directory = ""] = process.argv.slice(2);
const { path: binary } = await findNatsServer({ env: process.env });
const server = await startNatsServer({ binary, directory, port: 0, token: "secret" });
process.send?.({ pid: server.pid });
