import { expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { scriptedCluster } from "./scripted-cluster.ts";
import { slowApi } from "./slow-api.ts";
import { eventsOf, expectNothingLeft, finished, RAN, sawEvent, scripted, sessionWorld, submit } from "./world.ts";

/** The first crash follows progress of the session, so it does not count. */
const KILLS = 6;

it(
  "a session that crashes every process that runs it is ended, and a session beside it continues",
  { timeout: 180_000 },
  async () => {
    const pools = { drivers: 2 };
    const cluster = await scriptedCluster(await EMBEDDED.start(), pools);
    await using slow = await slowApi(cluster.kubeconfig);
    await using world = await sessionWorld(cluster, pools);
    const start = () => world.startController({ MUSTER_KUBECONFIG: slow.kubeconfig, SESSION_EXECUTORS: "0" });

    let held = slow.hold("poison-driver");
    let controller = await start();
    await submit(world, "beside", [scripted("driver", "driver", "serve")]);
    await sawEvent(world, "beside", "RUN");
    await submit(world, "poison", [scripted("driver", "driver", "serve")]);
    for (let kill = 1; kill <= KILLS; kill += 1) {
      await held.arrived;
      await controller.kill();
      held = slow.hold("poison-driver");
      controller = await start();
    }

    const poison = await finished(world, "poison");
    expect(eventsOf(poison)).toEqual(["QUEUE", "ACCEPT", "PROVISION", "INTERNAL_ERROR"]);
    expect(poison.events?.at(-1)?.description).toBe(
      "the session cannot be run: it ended its controller 5 times in a row",
    );
    const { session: beside } = await world.sessions.getSession({ name: "beside" });
    expect(beside?.components[0]?.state).toBe("READY");
    await world.sessions.cancelSession({ requestId: "c", name: "beside" });
    expect(eventsOf(await finished(world, "beside"))).toEqual([...RAN, "CANCELLED"]);
    await expectNothingLeft(world);
  },
);
