import { mkdtempDisposable, readFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { until } from "@muster/testkit";
import { expect, it } from "vitest";
import { describeMissingContainers } from "./containers.ts";
import { startLuckyWorld } from "./lucky-world.ts";
import { NATS_IMAGE, startSmallDiskNats } from "./small-disk.ts";

const lack = describeMissingContainers([NATS_IMAGE]);
const LONG = { timeoutMs: 120_000, everyMs: 100 };
const DISK_MEBIBYTES = 24;
const DISK = "disk of nats is not available";

const SKIPPED = lack === undefined ? "" : ` (skipped: ${lack})`;
it.skipIf(lack !== undefined)(
  `reports a full disk of NATS, ends no process, loses no accepted session, and continues once NATS restarts with free space${SKIPPED}`,
  { timeout: 600_000 },
  async () => {
    await using directory = await mkdtempDisposable(join(tmpdir(), "muster-full-disk-"));
    await using nats = await startSmallDiskNats(directory.path, DISK_MEBIBYTES);
    await using world = await startLuckyWorld(nats);
    const processes = world.stack.replicas.map((replica) => replica.current().pid);
    await nats.fill();

    // NATS accepts what still fits into the last block of a file.
    const taken: string[] = [];
    const refusal = async (): Promise<string | false> => {
      const name = `full-${taken.length}`;
      const refused = await world.submit(name).then(() => undefined, String);
      if (refused === undefined) taken.push(name);
      return refused ?? false;
    };
    expect(await until("a session is refused", refusal, LONG)).toContain(DISK);
    const log = join(dirname(world.stack.kubeconfig), "logs/reservation-manager-0.log");
    await until("the leader logs it", async () => (await readFile(log, "utf8")).includes(DISK), LONG);
    expect(await nats.log()).toContain("no space left on device");

    await nats.makeRoom();
    await nats.restart();
    await world.expectAllGoesOn("roomy");
    for (const name of taken) await world.cli(`wait session/${name} --for=condition=DONE --timeout 2m`);
    expect(world.stack.replicas.map((replica) => replica.current().pid)).toEqual(processes);
    await world.expectGoodEnd();
  },
);
