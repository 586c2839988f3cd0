import { apiServers } from "@muster/testkit";
import { startApiServer } from "../src/index.ts";

/** The servers that every suite of the scheduler and the kubelet runs against. */
export const API_SERVERS = apiServers(startApiServer);
