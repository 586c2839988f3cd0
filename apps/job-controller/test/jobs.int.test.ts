import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";
import { API_SERVERS } from "./api-servers.ts";
import { jobWorld, type JobWorld, type TestJob } from "./job-world.ts";

const POOLS = { workers: 3, drivers: 1 };
const EXAMPLES = new URL("../../../examples/", import.meta.url);

for (const server of API_SERVERS) {
  describe.skipIf(server.skip)(`jobs of real processes under ${server.title}`, () => {
    let world: JobWorld;

    beforeAll(async () => {
      world = await jobWorld(await server.start(), POOLS);
      await world.startController();
    });

    afterAll(() => world[Symbol.asyncDispose]());

    it("runs the example from its queue to its one final condition, and leaves nothing", async () => {
      const job = parse(await readFile(new URL("training-job.yaml", EXAMPLES), "utf8")) as TestJob;
      await world.create(job);
      const done = await world.untilCondition("training", "Succeeded");
      expect(done.status).toMatchObject({ state: "Succeeded", completions: "4/4", restarts: 0 });
      expect(done.status?.conditions?.filter(({ status }) => status === "True").map(({ type }) => type)).toEqual([
        "Created",
        "MachinesReserved",
        "Succeeded",
      ]);
      await world.untilNothingLeft("training");
    });
  });
}
