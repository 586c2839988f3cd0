import { WORK } from "./installed-world.ts";
import { FOR_EVER } from "./lease-programs.ts";

const IMAGE = "node:24-bookworm-slim";
/** Exits with 0 once the file exists. */
const UNTIL_FILE = `
  process.once("SIGTERM", () => process.exit(0));
  setInterval(() => { if (require("node:fs").existsSync("/tmp/end")) process.exit(0); }, 200);
`;

const container = (program: string) => ({
  name: "main",
  image: IMAGE,
  imagePullPolicy: "IfNotPresent",
  command: ["node", "--eval", program],
});

/** A worker, and a driver that runs until the test ends it, or runs this program. */
export function buildSession(name: string, pool = "steady", driver = UNTIL_FILE, driverPool = "drivers") {
  const component = { pool, image: IMAGE, command: ["node", "--eval", FOR_EVER] };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Session",
    metadata: { name },
    spec: {
      timeout: "10m",
      killAfter: "2s",
      components: [
        { ...component, name: "server", kind: "server" },
        { ...component, name: "driver", kind: "driver", pool: driverPool, command: ["node", "--eval", driver] },
      ],
    },
  };
}

/** A job with one member, on a part of a machine of the pool, beside pods that the ledger does not know. */
export function buildJob(name: string, pool: string) {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container(UNTIL_FILE)] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, namespace: WORK, annotations: { "muster.dev/sharing": "shared" } },
    spec: { replicaSpecs: { worker: { replicas: 1, pool, restartPolicy: "OnFailure", template } } },
  };
}

/** A set with one replica, on a node of the pool. */
export function buildReplicaSet(name: string, pool: string) {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container(FOR_EVER)] } };
  const spec = { podId: name, replicas: 1, nodeSelector: `pool=${pool}`, allocationStrategy: "Dynamic", template };
  return { apiVersion: "muster.dev/v1", kind: "PinnedReplicaSet", metadata: { name }, spec };
}
