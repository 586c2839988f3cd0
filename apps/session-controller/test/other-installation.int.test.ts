import type { V1Pod } from "@kubernetes/client-node";
import { labels } from "@muster/proto";
import { readInstallationId } from "@muster/store";
import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  waitUntilFinished,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 1 };
const NAMESPACE = "default";
const OTHER = "muster-0123456789abcdef";
let world: SessionWorld<ScriptedCluster>;

beforeAll(async () => {
  world = await openSessionWorld(await openScriptedCluster(await EMBEDDED.start(), POOLS), POOLS);
});
afterAll(() => world[Symbol.asyncDispose]());

/** Creates a pod of a session that is unknown here. */
async function stray(name: string, session: string, more: Readonly<Record<string, string>>): Promise<void> {
  const body: V1Pod = {
    metadata: {
      name,
      labels: {
        [labels.managedBy]: "muster",
        [labels.ownerKind]: "session",
        [labels.owner]: session,
        [labels.ownerUid]: `uid-of-${session}`,
        ...more,
      },
    },
    spec: {
      // The pod is never scheduled, so it exists until it is deleted.
      schedulingGates: [{ name: "example.com/held" }],
      containers: [{ name: "main", image: "scripted" }],
    },
  };
  await world.cluster.api.createNamespacedPod({ namespace: NAMESPACE, body });
}

async function podNames(): Promise<string[]> {
  const { items } = await world.cluster.api.listNamespacedPod({ namespace: NAMESPACE });
  return items.map(({ metadata }) => metadata?.name ?? "").sort();
}

it("starts no session beside those of another installation, and deletes only its own leftovers", async () => {
  await stray("theirs-driver", "theirs", { [labels.installation]: OTHER });
  await stray("same-driver", "same", { [labels.installation]: OTHER });
  await stray("older-driver", "older", {});
  const controller = await world.startController({ SESSION_LEAK_AGE_MS: "1000" });
  const own = await readInstallationId(world.bus.connection);
  await stray("ours-driver", "ours", { [labels.installation]: own });

  // Our own and unlabelled pods are at least as old as the others, so the sweep has visited all of them.
  await until("the leftovers are gone", async () => !(await podNames()).some((name) => /^(ours|older)-/.test(name)));
  expect(await podNames()).toEqual(["same-driver", "theirs-driver"]);

  await submitSession(world, "runs", [makeScripted("driver", "driver", "serve")]);
  await waitForEvent(world, "runs", "RUN");
  const { metadata } = await world.cluster.api.readNamespacedPod({ name: "runs-driver", namespace: NAMESPACE });
  expect(metadata?.labels?.[labels.installation]).toBe(own);

  // A session under a name of the other installation is refused, and its end removes nothing of the other one.
  await submitSession(world, "same", [makeScripted("driver", "driver", "serve")]);
  await world.sessions.cancelSession({ name: "runs" });
  await waitUntilFinished(world, "runs");
  const same = await waitUntilFinished(world, "same");
  expect(same.events?.at(-1)).toMatchObject({ reason: "POD_NAME_TAKEN" });
  expect(same.events?.at(-1)?.description).toContain(`of installation ${OTHER}`);
  await until("its own pods are gone", async () => !(await podNames()).includes("runs-driver"));
  expect(await podNames()).toEqual(["same-driver", "theirs-driver"]);
  await controller.stop();
});
