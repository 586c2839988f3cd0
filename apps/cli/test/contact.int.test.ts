import { until } from "@muster/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { startSessionWorld, type SessionWorld } from "./session-world.ts";

let world: SessionWorld;
beforeAll(async () => {
  world = await startSessionWorld();
});
afterAll(() => world[Symbol.asyncDispose]());

it(
  "reports that contact was lost and that it is back, and continues, for everything that is followed",
  { timeout: 400_000 },
  async () => {
    const yaml = `apiVersion: muster.dev/v1
kind: Session
metadata: { name: lasting }
spec:
  components:
    - { name: driver, kind: driver, pool: drivers, image: i }
`;
    const run = world.process(["run", "-"], { input: yaml });
    await until("the session is followed", () => run.stderr().includes("QUEUE"));
    world.logs.set("lasting/driver", "first\n");
    const events = world.muster(["events", "-f", "lasting"]);
    const logs = world.muster(["logs", "-f", "lasting", "driver"]);
    await until("all follow it", () => events.stdout().includes("QUEUE") && logs.stdout() === "first\n");

    await world.nats.kill();
    const following = [run, events, logs];
    const lost = `lost contact with ${world.url} (MUSTER_NATS_URL)`;
    await until("all have reported the loss", () => following.every(({ stderr }) => stderr().includes(lost)), {
      timeoutMs: 120_000,
    });
    await world.nats.start();
    const back = `in contact again with ${world.url} (MUSTER_NATS_URL) after `;
    await until("all have reported the return", () => following.every(({ stderr }) => stderr().includes(back)), {
      timeoutMs: 120_000,
    });

    world.logs.set("lasting/driver", "first\nsecond\n");
    world.move("lasting", "DONE");
    world.announce("lasting");
    for (const cli of following) expect(await cli.ended).toMatchObject({ code: 0 });
    expect(events.stdout()).toMatch(/QUEUE[^]*DONE/);
    expect(logs.stdout()).toBe("first\nsecond\n");
    for (const { stderr } of following) expect(stderr().split("lost contact")).toHaveLength(2);
  },
);
