import { beforeAll, describe, expect, it } from "vitest";
import { type JsonObject, getList, getObject, getText } from "../../src/apiserver/json.ts";
import { type Answer, type Api, listNames, getVersion } from "./api.ts";

/** Leases, by which leaders are elected, and events. */
export function describeCoordination(api: () => Api): void {
  let namespace: string;
  beforeAll(async () => {
    namespace = await api().namespace();
  });

  describe("a lease", () => {
    const leases = (): string => `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases`;
    const lease = (name: string, spec: object): object => ({ metadata: { name }, spec });
    const TIMES = { acquireTime: "2026-01-01T00:00:00.123456Z", renewTime: "2026-01-01T01:00:00.000000+01:00" };

    it("keeps microseconds, in UTC", async () => {
      const made = await api().post(leases(), lease("micro", { holderIdentity: "a", ...TIMES }));
      expect(made.code, made.text).toBe(201);
      expect(made.body["spec"]).toEqual({
        holderIdentity: "a",
        acquireTime: "2026-01-01T00:00:00.123456Z",
        renewTime: "2026-01-01T00:00:00.000000Z",
      });
    });

    it.each([
      ["soon", 'cannot parse "soon" as "2006"'],
      ["2026-01-01T00:00:00Z", 'cannot parse "Z" as ".000000"'],
      ["2026-01-01T00:00:00.123Z", 'cannot parse ".123Z" as ".000000"'],
      ["2026-01-01T00:00:00.123456789Z", 'cannot parse "789Z" as "Z07:00"'],
    ])("refuses the time %s", async (renewTime, because) => {
      const refused = await api().post(leases(), lease("refused", { renewTime }));
      expect(refused.code).toBe(400);
      expect(getText(refused.body, "message")).toBe(
        `Lease in version "v1" cannot be handled as a Lease: parsing time "${renewTime}" as "2006-01-02T15:04:05.000000Z07:00": ${because}`,
      );
    });

    it("lasts for more than no time, and has not changed hands less than never", async () => {
      const refused = await api().post(leases(), lease("none", { leaseDurationSeconds: 0, leaseTransitions: -1 }));
      expect(refused.code).toBe(422);
      expect(getList(refused.body, "details", "causes").map((cause) => getText(cause, "message"))).toEqual([
        "Invalid value: 0: must be greater than 0",
        "Invalid value: -1: must be greater than or equal to 0",
      ]);
    });

    it("goes to one of those who take it at the same version", async () => {
      const made = await api().post(leases(), lease("leader", { holderIdentity: "" }));
      const take = (holderIdentity: string): Promise<Answer> =>
        api().put(`${leases()}/leader`, {
          metadata: { name: "leader", resourceVersion: getVersion(made.body) },
          spec: { holderIdentity },
        });
      const answers = await Promise.all(["a", "b", "c", "d"].map(take));
      const winners = answers.filter(({ code }) => code === 200);
      expect(winners).toHaveLength(1);
      for (const lost of answers.filter((answer) => answer !== winners[0])) {
        expect(lost.code).toBe(409);
        expect(getText(lost.body, "message")).toBe(
          'Operation cannot be fulfilled on leases.coordination.k8s.io "leader": the object has been modified; please apply your changes to the latest version and try again',
        );
      }
      const held = getObject((await api().get(`${leases()}/leader`)).body, "spec");
      expect(held).toEqual(winners[0]?.body["spec"]);
    });

    it("is not updated without a version, unless it is not there yet", async () => {
      expect((await api().put(`${leases()}/upserted`, lease("upserted", { holderIdentity: "a" }))).code).toBe(201);
      const refused = await api().put(`${leases()}/upserted`, lease("upserted", { holderIdentity: "b" }));
      expect(refused.code).toBe(422);
      expect(getText(refused.body, "message")).toContain("metadata.resourceVersion: Invalid value: 0");
    });
  });

  describe("an event", () => {
    const core = (): string => `/api/v1/namespaces/${namespace}/events`;
    const about = (): JsonObject => ({ kind: "Pod", namespace, name: "subject" });
    const coreEvent = (name: string, more: object = {}): object => ({
      metadata: { name },
      involvedObject: about(),
      reason: "Tested",
      message: "a note",
      type: "Normal",
      count: 1,
      firstTimestamp: "2026-01-01T00:00:00Z",
      lastTimestamp: "2026-01-01T00:00:00Z",
      source: { component: "tester" },
      ...more,
    });

    it("is counted on by its recorder, without naming version or namespace", async () => {
      await api().post(core(), coreEvent("again"));
      const counted = await api().put(`${core()}/again`, coreEvent("again", { count: 2, reason: "Changed" }));
      expect(counted.code, counted.text).toBe(200);
      expect(counted.body).toMatchObject({ count: 2, reason: "Changed" });
      expect((await api().patch(`${core()}/again`, "strategic", { count: 3 })).body).toMatchObject({ count: 3 });
      await api().delete(`${core()}/again`);
      expect((await api().put(`${core()}/again`, coreEvent("again", { count: 4 }))).code).toBe(201);
    });

    it("is found by what it is about", async () => {
      const found = await api().get(`${core()}?fieldSelector=involvedObject.name%3Dsubject`);
      expect(listNames(found.body)).toContain("again");
    });
  });
}
