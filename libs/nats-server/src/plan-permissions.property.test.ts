import fc from "fast-check";
import { expect, it } from "vitest";
import { LeaseService, ReservationService, SessionService } from "@muster/proto";
import { planPermissions } from "./plan-permissions.ts";
import { listRequests, type NatsRights } from "./rights.ts";

const BUCKETS = ["sessions", "ledger", "machines"];
const STREAMS = ["EVENTS", "COMMANDS", "LOG"];
const KEYS = ["ledger", "jobs", "scaler"];
const SERVICES = [SessionService, ReservationService, LeaseService];

/** Matches as a server does: `*` stands for one token, `>` for one or more. */
function allows(patterns: readonly string[], subject: string): boolean {
  const words = subject.split(".");
  return patterns.some((pattern) => {
    const parts = pattern.split(".");
    const isOpen = parts.at(-1) === ">";
    const fixed = isOpen ? parts.slice(0, -1) : parts;
    if (isOpen ? words.length <= fixed.length : words.length !== fixed.length) return false;
    return fixed.every((part, at) => part === "*" || part === words[at]);
  });
}

const some = <Item>(items: readonly Item[]): fc.Arbitrary<Item[]> => fc.subarray([...items]);
const anyRights: fc.Arbitrary<NatsRights> = fc.record({
  serves: some(SERVICES),
  asks: some(["muster.req.session.submit", "muster.req.reservation.reserve"]),
  owns: some(BUCKETS),
  reads: some(BUCKETS),
  locks: some(KEYS),
  marks: some(KEYS),
  publishes: some(["muster.evt.session.x.started", "muster.cmd.provision.x.create"]),
  listens: some(["muster.evt.session.*.started"]),
  keeps: some(STREAMS),
  inspects: some(STREAMS),
  counts: some(BUCKETS),
  consumes: some(STREAMS.map((stream) => ({ stream, durable: "worker" }))),
  oversees: some(STREAMS),
  copies: some(STREAMS),
});
const both = (one: NatsRights, other: NatsRights): NatsRights => {
  const keys = Object.keys({ ...one, ...other }) as (keyof NatsRights)[];
  return Object.fromEntries(keys.map((key) => [key, [...new Set([...list(one[key]), ...list(other[key])])]]));
};
const list = (of: unknown): readonly unknown[] => (Array.isArray(of) ? of : []);

it("never takes a right away by giving another", () => {
  fc.assert(
    fc.property(anyRights, anyRights, (one, other) => {
      const [alone, together] = [planPermissions("u", one), planPermissions("u", both(one, other))];
      expect(together.publish).toEqual(expect.arrayContaining([...alone.publish]));
      expect(together.subscribe).toEqual(expect.arrayContaining([...alone.subscribe]));
    }),
  );
});

it("forbids writing a bucket or a lock by rights on other ones, or by other lines", () => {
  fc.assert(
    fc.property(anyRights, (needed) => {
      const { publish } = planPermissions("u", needed);
      for (const bucket of BUCKETS) {
        const isOwn = needed.owns?.includes(bucket) ?? false;
        for (const subject of [`$KV.${bucket}.key`, `$KV.${bucket}.a.b`, `$JS.API.STREAM.PURGE.KV_${bucket}`])
          expect(allows(publish, subject), subject).toBe(isOwn);
        expect(allows(publish, `$JS.API.STREAM.UPDATE.KV_${bucket}`)).toBe(isOwn);
        const follows = isOwn || (needed.reads?.includes(bucket) ?? false);
        expect(allows(publish, `$JS.API.CONSUMER.CREATE.KV_${bucket}.name.filter`)).toBe(follows);
        expect(allows(publish, `$JS.API.STREAM.DELETE.KV_${bucket}`)).toBe(false);
      }
      for (const key of KEYS)
        expect(allows(publish, `$KV.muster-locks.${key}`)).toBe(needed.locks?.includes(key) ?? false);
      for (const key of KEYS)
        expect(allows(publish, `$KV.muster-installation.${key}`)).toBe(needed.marks?.includes(key) ?? false);
      expect(allows(publish, "$JS.API.STREAM.PURGE.KV_muster-installation")).toBe(false);
    }),
  );
});

it("forbids consuming, copying or deleting in a stream except by the line that names it", () => {
  fc.assert(
    fc.property(anyRights, (needed) => {
      const { publish } = planPermissions("u", needed);
      for (const stream of STREAMS) {
        const takes = needed.consumes?.some((each) => each.stream === stream) ?? false;
        expect(allows(publish, `$JS.API.CONSUMER.MSG.NEXT.${stream}.worker`)).toBe(takes);
        expect(allows(publish, `$JS.ACK.${stream}.worker.1.2.3`)).toBe(takes);
        expect(allows(publish, `$JS.API.CONSUMER.MSG.NEXT.${stream}.another`)).toBe(false);
        const copies = needed.copies?.includes(stream) ?? false;
        expect(allows(publish, `$JS.API.STREAM.SNAPSHOT.${stream}`)).toBe(copies);
        expect(allows(publish, `$JS.API.STREAM.RESTORE.${stream}`)).toBe(copies);
        expect(allows(publish, `$JS.API.STREAM.MSG.DELETE.${stream}`)).toBe(needed.oversees?.includes(stream) ?? false);
        expect(allows(publish, `$JS.API.STREAM.UPDATE.${stream}`)).toBe(needed.keeps?.includes(stream) ?? false);
      }
    }),
  );
});

it("forbids hearing another user's answers, or requests of a service that the user does not serve", () => {
  fc.assert(
    fc.property(anyRights, (needed) => {
      const { subscribe } = planPermissions("u", needed);
      expect(allows(subscribe, "_INBOX.u.x")).toBe(true);
      for (const subject of ["_INBOX.v.x", "_INBOX.x", "$KV.sessions.key", "$JS.API.STREAM.INFO.LOG", "anything"])
        expect(allows(subscribe, subject), subject).toBe(false);
      for (const service of SERVICES)
        for (const subject of listRequests(service))
          for (const heard of [subject, `${subject}.REPLICA`])
            expect(allows(subscribe, heard), heard).toBe(needed.serves?.includes(service) ?? false);
    }),
  );
});
