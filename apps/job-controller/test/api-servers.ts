import { startApiServer } from "@muster/devcluster";
import { apiServers } from "@muster/testkit";

/** The servers that a suite runs against. */
export const API_SERVERS = apiServers(startApiServer);
