import { setTimeout as sleep } from "node:timers/promises";
import { ReservationService } from "@muster/proto";
import { connectNats, serveMethods } from "../src/index.ts";
import { answered } from "./answered.ts";

/** A replica that answers slowly until killed. Arguments: url, token, name. */
const [url = "", token = "", name = ""] = process.argv.slice(2);
const bus = await connectNats({ url, token, name });
const handlers = answered({
  listPools: async () => {
    await sleep(20);
    return { pools: [{ name }] };
  },
});
await serveMethods(bus, ReservationService, handlers, { version: "1.0.0", description: "" });
process.send?.("serving");
