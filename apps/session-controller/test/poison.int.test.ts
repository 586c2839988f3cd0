import { expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster } from "./scripted-cluster.ts";
import { slowApi } from "./slow-api.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  RAN,
  waitForEvent,
  makeScripted,
  openSessionWorld,
  submitSession,
} from "./world.ts";

/** The first crash follows progress of the session, so it does not count. */
const KILLS = 6;

it(
  "a session that crashes every process that runs it is ended, and a session beside it continues",
  { timeout: 180_000 },
  async () => {
    const pools = { drivers: 2 };
    const cluster = await openScriptedCluster(await EMBEDDED.start(), pools);
    await using slow = await slowApi(cluster.kubeconfig);
    await using world = await openSessionWorld(cluster, pools);
    const start = () => world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig, SESSION_EXECUTORS: "0" });

    let held = slow.hold("poison-driver");
    let controller = await start();
    await submitSession(world, "beside", [makeScripted("driver", "driver", "serve")]);
    await waitForEvent(world, "beside", "RUN");
    await submitSession(world, "poison", [makeScripted("driver", "driver", "serve")]);
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await held.arrived;
      await controller.kill();
      held = slow.hold("poison-driver");
      controller = await start();
    }

    const poison = await waitUntilFinished(world, "poison");
    expect(listEvents(poison)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "INTERNAL_ERROR"]);
    expect(poison.events?.at(-1)?.description).toBe(
      "the session cannot be run: it ended its controller 5 times in a row",
    );
    const { session: beside } = await world.sessions.getSession({ name: "beside" });
    expect(beside?.components[0]?.state).toBe("READY");
    await world.sessions.cancelSession({ requestId: "c", name: "beside" });
    expect(listEvents(await waitUntilFinished(world, "beside"))).toEqual([...RAN, "CANCELLED"]);
    await expectNothingLeft(world);
  },
);
