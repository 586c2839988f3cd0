import { WORK } from "./installed-world.ts";

const IMAGE = "node:24-bookworm-slim";
/** Goes on until the file is there, and ends well. */
const UNTIL_TOLD = `
  process.once("SIGTERM", () => process.exit(0));
  setInterval(() => { if (require("node:fs").existsSync("/tmp/end")) process.exit(0); }, 200);
`;
/** Goes on until it is ended. */
const FOR_EVER = `process.once("SIGTERM", () => process.exit(0)); setInterval(() => {}, 1000);`;

const container = (program: string) => ({
  name: "main",
  image: IMAGE,
  imagePullPolicy: "IfNotPresent",
  command: ["node", "--eval", program],
});

/** A worker, and a driver that goes on until it is told to end. */
export function session(name: string) {
  const component = { pool: "steady", image: IMAGE, command: ["node", "--eval", FOR_EVER] };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Session",
    metadata: { name },
    spec: {
      timeout: "10m",
      killAfter: "2s",
      components: [
        { ...component, name: "server", kind: "server" },
        { ...component, name: "driver", kind: "driver", pool: "drivers", command: ["node", "--eval", UNTIL_TOLD] },
      ],
    },
  };
}

/** One member, on a machine of the pool. */
export function job(name: string, pool: string) {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container(UNTIL_TOLD)] } };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name, namespace: WORK },
    spec: { replicaSpecs: { worker: { replicas: 1, pool, restartPolicy: "OnFailure", template } } },
  };
}

/** One replica, on a node of the pool. */
export function replicaSet(name: string, pool: string) {
  const template = { spec: { terminationGracePeriodSeconds: 2, containers: [container(FOR_EVER)] } };
  const spec = { podId: name, replicas: 1, nodeSelector: `pool=${pool}`, allocationStrategy: "Dynamic", template };
  return { apiVersion: "muster.dev/v1", kind: "PinnedReplicaSet", metadata: { name }, spec };
}

/** One lease of each type that a cluster can have without disks of its own, but for whole machines: those of `pool` are in an order of their own. */
export function leases(pool: string) {
  const number = Date.now();
  const lease = (type: string, data: object, index: number) => ({
    apiVersion: "muster.dev/v1",
    kind: "Lease",
    metadata: { name: `${number}-${index}` },
    spec: { type, duration: "1h", data },
  });
  const container = {
    image: IMAGE,
    network: "home",
    entrypoint: ["node", "--eval"],
    args: [FOR_EVER],
    env: { GREETING: "hello" },
    secret_env: { TOKEN: "hidden" },
    ports: [8080],
    capacity: { cpu: 1, memory: 1024 },
  };
  const data = {
    network: { name: "home", open_ports: [8080] },
    volume: { size: 1, type: "ssd", network: "home" },
    container,
    kubernetes: { size: 18 },
    debug: { say: "hello" },
  };
  const placed = Object.entries(data).map(([type, each], at) => lease(type, each, at + 1));
  return { placed, machine: lease("machine", { pool, machines: 1 }, placed.length + 1) };
}
