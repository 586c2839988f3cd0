import { buildWaitCommand } from "./stack-world.ts";

const IMAGE = "node:24-bookworm-slim";
const FOR_EVER = `process.on("SIGTERM", () => process.exit(0)); setInterval(() => {}, 1000)`;
const template = (program: string) => ({
  spec: {
    terminationGracePeriodSeconds: 1,
    containers: [{ name: "main", image: IMAGE, command: ["node", "--eval", program] }],
  },
});

/** Ends immediately, or once the file exists. */
const driver = (file: string | undefined): string =>
  file === undefined ? `console.log(JSON.stringify({ answer: 42 }))` : buildWaitCommand(file);

/** A server on pool `workers` and a driver that ends immediately, or once the file exists. */
export function buildSession(name: string, file?: string): object {
  const component = { image: IMAGE, command: ["node", "--eval", FOR_EVER] };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Session",
    metadata: { name },
    spec: {
      timeout: "10m",
      ttl: "1h",
      killAfter: "1s",
      components: [
        { ...component, name: "server", kind: "server", pool: "workers" },
        {
          ...component,
          name: "driver",
          kind: "driver",
          pool: "drivers",
          command: ["node", "--eval", driver(file)],
        },
      ],
    },
  };
}

/** Members on pool `workers` that succeed immediately, or once the file exists. */
export function buildJob(name: string, { replicas = 1, file }: { replicas?: number; file?: string } = {}): object {
  const worker = { replicas, pool: "workers", restartPolicy: "OnFailure", template: template(driver(file)) };
  return {
    apiVersion: "muster.dev/v1",
    kind: "Job",
    metadata: { name },
    spec: { replicaSpecs: { worker } },
  };
}

/** Pods on the nodes of pool `sets`. */
export function buildReplicaSet(name: string, replicas = 1): object {
  const spec = { podId: name, replicas, nodeSelector: "pool=sets", template: template(FOR_EVER) };
  return { apiVersion: "muster.dev/v1", kind: "PinnedReplicaSet", metadata: { name }, spec };
}

/** A network, and a container in it on pool `workers`. */
export function buildLeases(number: number): readonly [object, object] {
  const lease = (index: number, spec: object) => ({
    apiVersion: "muster.dev/v1",
    kind: "Lease",
    metadata: { name: `${number}-${index}` },
    spec: { duration: "1h", ...spec },
  });
  const data = {
    image: IMAGE,
    network: "home",
    entrypoint: ["node", "--eval"],
    args: [FOR_EVER],
    capacity: { cpu: 1, memory: 1024 },
  };
  return [lease(1, { type: "network", data: { name: "home" } }), lease(2, { type: "container", data })];
}
