import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { labels } from "@muster/proto";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { API_SERVERS } from "./api-servers.ts";
import { processCluster } from "./process-cluster.ts";
import {
  listEvents,
  waitUntilFinished,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { workers: 2, crowded: 2 };
const NAMESPACE = "default";
const TAINT = { key: "example.com/gpu", value: "present", effect: "NoSchedule" };
const TOLERATIONS = [{ key: TAINT.key, operator: "Exists" }];
/** Requests of a component; the nodes have four cores. */
const REQUESTS = { cpu: "500m", memory: "64Mi" };

const FOREVER = ["sleep", "600"];
const ENDS = ["node", "--eval", "process.exit(0)"];
/** Becomes ready once the file exists. */
const READY_WHEN = (file: string) => `
  const open = () => require("node:net").createServer((socket) => socket.on("error", () => {}).end()).listen(9000, process.env.POD_IP);
  const poll = setInterval(() => { if (require("node:fs").existsSync(${JSON.stringify(file)})) { clearInterval(poll); open(); } }, 100);
`;

type Fields = {
  readonly pool?: string;
  readonly command: string[];
  readonly readyPort?: number;
  readonly shared?: boolean;
  readonly spec?: object;
};

/** A component whose pod requests `REQUESTS`. */
function part(name: "driver" | "server", { pool = "workers", spec = {}, ...more }: Fields) {
  const containers = [{ name: "main", resources: { requests: REQUESTS } }];
  return {
    ...makeScripted(name, name),
    pool,
    ...more,
    templateJson: JSON.stringify({ spec: { containers, ...spec } }),
  };
}

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`sessions that share machines, under ${server.title}`, { timeout: 240_000 }, () => {
    let world: SessionWorld;
    let folder = "";

    beforeAll(async () => {
      folder = await mkdtemp(join(tmpdir(), "muster-"));
      world = await openSessionWorld(await processCluster(await server.start(), POOLS), POOLS);
      await world.startController({ SESSION_EXECUTORS: "0", SESSION_MACHINE_LOST_MS: "500" });
    }, 240_000);

    afterAll(async () => {
      await world[Symbol.asyncDispose]();
      await rm(folder, { recursive: true });
    });

    const componentsOf = async (name: string) => (await world.sessions.getSession({ name })).session?.components ?? [];
    const nodesOf = async (name: string) => new Set((await componentsOf(name)).map(({ node }) => node));
    const cancel = (name: string) => world.sessions.cancelSession({ requestId: `cancel-${name}`, name });
    const standingOf = async (node: string, pool: string) => {
      const { machines } = await world.ledger.listMachines({ pool });
      return machines.find((machine) => machine.node === node)?.standing;
    };

    it("run on one machine, beside a tainted one, and an exclusive session waits for both", async () => {
      const { machines } = await world.ledger.listMachines({ pool: "workers" });
      const [plain = "", tainted = ""] = machines.map(({ node }) => node);
      const node = await world.cluster.api.readNode({ name: tainted });
      await world.cluster.api.replaceNode({
        name: tainted,
        body: { ...node, spec: { ...node.spec, taints: [TAINT] } },
      });
      await until("the ledger knows the taint", async () => (await standingOf(tainted, "workers")) === "CORDONED");

      for (const name of ["one", "two"]) {
        const both = [
          part("driver", { command: FOREVER, shared: true }),
          part("server", { command: FOREVER, shared: true }),
        ];
        await submitSession(world, name, both);
        await waitForEvent(world, name, "RUN");
        expect(await nodesOf(name)).toEqual(new Set([plain]));
      }
      expect(await standingOf(plain, "workers")).toBe("SHARED");
      const { items } = await world.cluster.api.listNamespacedPod({ namespace: NAMESPACE });
      expect(items.map(({ metadata }) => metadata?.labels?.[labels.exclusive])).toEqual(Array(4).fill("false"));

      await submitSession(world, "alone", [part("driver", { command: ENDS })]);
      await submitSession(world, "tolerant", [part("driver", { command: ENDS, spec: { tolerations: TOLERATIONS } })]);
      expect(listEvents(await waitUntilFinished(world, "tolerant"))).toEqual([...RAN, "DONE"]);
      expect(await nodesOf("tolerant")).toEqual(new Set([tainted]));

      const waiting = async () => (await world.sessions.getSession({ name: "alone" })).session?.waitingCode;
      await until("the exclusive session waits", async () => (await waiting()) === "POOL_AVAILABILITY");
      await cancel("one");
      await waitUntilFinished(world, "one");
      expect(await waiting()).toBe("POOL_AVAILABILITY");
      await cancel("two");
      expect(listEvents(await waitUntilFinished(world, "alone"))).toEqual([...RAN, "DONE"]);
      expect(await nodesOf("alone")).toEqual(new Set([plain]));
    });

    it("get another part if a foreign pod takes the room of a component that has not started", async () => {
      const file = join(folder, "ready");
      const waits = { command: ["node", "--eval", READY_WHEN(file)], readyPort: 9000 };
      const shared = { pool: "crowded", shared: true };
      await submitSession(world, "moved", [
        part("driver", { ...shared, command: ENDS }),
        part("server", { ...shared, ...waits }),
      ]);
      const home = await until("the server has its pod", async () => {
        const found = (await componentsOf("moved")).find(({ name, podIp }) => name === "server" && podIp !== "");
        return found?.node;
      });
      expect(await nodesOf("moved")).toEqual(new Set([home]));
      const container = { name: "main", image: "node", command: FOREVER, resources: { requests: { cpu: "3500m" } } };
      const spec = { nodeName: home, containers: [container] };
      await world.cluster.api.createNamespacedPod({ namespace: NAMESPACE, body: { metadata: { name: "web" }, spec } });
      await until("the driver has another machine", async () => {
        const driver = (await componentsOf("moved")).find(({ name }) => name === "driver");
        return driver?.lostNode === home && driver.node !== "" && driver.node !== home;
      });
      await writeFile(file, "");
      expect(listEvents(await waitUntilFinished(world, "moved"))).toEqual([...RAN, "DONE"]);
      await world.cluster.api.deleteNamespacedPod({ name: "web", namespace: NAMESPACE, gracePeriodSeconds: 0 });
      await until(
        "nothing is reserved",
        async () => (await world.ledger.listReservations({})).reservations.length === 0,
      );
    });
  });
}
