import { startApiServer } from "@muster/devcluster";
import { apiServers } from "@muster/testkit";

/** The servers that a suite runs against. */
export const API_SERVERS = apiServers(startApiServer);

/** For tests that do not depend on the API server. */
export const [EMBEDDED] = API_SERVERS;
