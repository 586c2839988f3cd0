import { findFault } from "@muster/faults";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { EMBEDDED } from "./api-servers.ts";
import { openScriptedCluster, type ScriptedCluster } from "./scripted-cluster.ts";
import {
  listEvents,
  expectNothingLeft,
  waitUntilFinished,
  makeScripted,
  openSessionWorld,
  submitSession,
  type SessionWorld,
} from "./world.ts";

const POOLS = { drivers: 1, workers: 2 };
const PROVISIONED = ["QUEUE", "ACCEPT", "PROVISION"];

describe("a session that cannot succeed", () => {
  let world: SessionWorld<ScriptedCluster>;

  beforeAll(async () => {
    const cluster = await openScriptedCluster(await EMBEDDED.start(), POOLS);
    world = await openSessionWorld(cluster, POOLS, { WATCHER_START_GRACE_MS: "500" });
    await world.startController({ SESSION_TIMEOUT_MS: "0" });
  });

  afterAll(async () => {
    await world[Symbol.asyncDispose]();
  });

  async function jetStream<Reply>(subject: string, request: object): Promise<Reply> {
    const reply = await world.bus.connection.request(`$JS.API.STREAM.${subject}`, JSON.stringify(request));
    return reply.json<Reply>();
  }

  /** Lists the subjects of all streams and buckets that name the session. */
  async function subjectsNaming(name: string): Promise<string[]> {
    const { streams } = await jetStream<{ streams: { config: { name: string } }[] }>("LIST", {});
    expect(streams.map(({ config }) => config.name)).toContain("KV_muster-sessions");
    const infos = streams.map(({ config }) =>
      jetStream<{ state: { subjects?: object } }>(`INFO.${config.name}`, { subjects_filter: ">" }),
    );
    const all = (await Promise.all(infos)).flatMap(({ state }) => Object.keys(state.subjects ?? {}));
    return all.filter((subject) => subject.includes(name));
  }

  it.each([
    {
      what: "an environment value over the limit",
      name: "much-env",
      env: [{ name: "BIG", value: "x".repeat(140_000) }],
      more: {},
      fault: {
        code: "invalid_request",
        field: "components[0].env[0].value",
        reason: expect.stringMatching(/^has 140000 bytes; .* 131072 at most$/) as string,
      },
    },
    {
      what: "a scenario over the limit",
      name: "much-scenario",
      env: [],
      more: { scenarioJson: JSON.stringify("x".repeat(200_000)) },
      fault: { code: "invalid_request", field: "scenario_json", reason: "has 200002 bytes; 98304 at most" },
    },
    {
      what: "more than one message can carry",
      name: "much-text",
      env: [{ name: "BIG", value: "x".repeat(2_000_000) }],
      more: {},
      fault: { code: "limit_exceeded", limit: 1_048_576, retryAfterMs: 0 },
    },
  ])("with $what is refused with the field and the limit, and nothing of it is stored", async (wanted) => {
    const { name, env, more, fault } = wanted;
    const driver = { ...makeScripted("driver", "driver", "exit", "0"), env };
    const error: unknown = await submitSession(world, name, [driver], more).catch((reason: unknown) => reason);
    expect(findFault(error)).toMatchObject(fault);
    expect(await subjectsNaming(name)).toEqual([]);
  });

  it("without its image ends as an error that names the component and the reason, and the driver is never created", async () => {
    await submitSession(world, "no-image", [
      makeScripted("driver", "driver", "serve"),
      makeScripted("server-0", "server", "unpullable"),
    ]);
    const session = await waitUntilFinished(world, "no-image");
    expect(listEvents(session)).toEqual([...PROVISIONED, "ERROR"]);
    expect(session.events?.at(-1)).toMatchObject({
      reason: "COMPONENT_FAILED",
      description: "server server-0 failed: ErrImagePull: container main: no such image",
    });
    expect(world.cluster.bound).not.toContain("no-image-driver");
    await expectNothingLeft(world);
  });

  it("without a ready worker ends at its time limit, and the driver is never created", async () => {
    const never = { ...makeScripted("server-0", "server", "idle"), readyPort: 10_000 };
    await submitSession(world, "never-ready", [makeScripted("driver", "driver", "serve"), never], {
      timeoutMs: 15_000,
    });
    const session = await waitUntilFinished(world, "never-ready");
    expect(listEvents(session)).toEqual([...PROVISIONED, "ERROR"]);
    expect(session.events?.at(-1)).toMatchObject({ reason: "TIMEOUT" });
    expect(session.events?.at(-1)?.description).toContain(
      "not all components were ready within 15s: driver is PENDING, server-0 is NOT_READY (ProbeFailing: no connection to ",
    );
    expect(world.cluster.bound).not.toContain("never-ready-driver");
    await expectNothingLeft(world);
  });
});
