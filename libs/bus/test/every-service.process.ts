import { once } from "node:events";
import { buildLeaseService, services, type ServiceDescriptor } from "@muster/proto";
import { connectNats, serveMethods } from "../src/index.ts";

/** A replica of every service that answers with empty messages; it serves once its parent sends a message. Arguments: url, token. */
const [url = "", token = ""] = process.argv.slice(2);
const bus = await connectNats({ url, token, name: "replica" });
process.send?.("connected");
await once(process, "message");
const every: readonly ServiceDescriptor[] = [...services, buildLeaseService("main")];
for (const service of every) {
  const handlers = Object.keys(service.methods).map((method) => [method, () => Promise.resolve({})] as const);
  await serveMethods(bus, service, Object.fromEntries(handlers), { version: "1.0.0", description: "" });
}
process.send?.("serving");
