import { once } from "node:events";
import { leaseServiceOf, services, type ServiceDescriptor } from "@muster/proto";
import { connectNats, serve } from "../src/index.ts";

/** A replica of every service that answers with empty messages; it serves once its parent sends a message. Arguments: url, token. */
const [url = "", token = ""] = process.argv.slice(2);
const bus = await connectNats({ url, token, name: "replica" });
process.send?.("connected");
await once(process, "message");
const every: readonly ServiceDescriptor[] = [...services, leaseServiceOf("main")];
for (const service of every) {
  const handlers = Object.keys(service.methods).map((method) => [method, () => Promise.resolve({})] as const);
  await serve(bus, service, Object.fromEntries(handlers), { version: "1.0.0", description: "" });
}
process.send?.("serving");
