import { startApiServer } from "@muster/devcluster";
import { apiServers } from "@muster/testkit";

/** The servers that a suite runs against. */
export const API_SERVERS = apiServers(startApiServer);

/** For what does not depend on which API server it is. */
export const [EMBEDDED] = API_SERVERS;
