import fc from "fast-check";
import { expect, it } from "vitest";
import { streams, subjects } from "./subjects.ts";

const builders = {
  cancel: subjects.cancel,
  dead: subjects.dead,
  changeAudited: (key: string) => subjects.changeAudited("sessions", key, "1-1"),
  changeRefused: (key: string) => subjects.changeRefused(key, "0a1b"),
  sessionEventRecorded: subjects.sessionEventRecorded,
  orderLease: (key: string) => subjects.orderLease("main", key),
  orderLeaseOf: (key: string) => subjects.orderLease(key, "1-1"),
  leaseAnswered: subjects.leaseAnswered,
  leaseAudited: subjects.leaseAudited,
  request: (key: string) => subjects.request("session", key),
  requestOfReplica: (key: string) => subjects.requestOfReplica("muster.req.session.get-session", key),
  ping: subjects.ping,
  reservationGranted: (key: string) => subjects.reservationGranted("session", key),
  reservationPreempted: (key: string) => subjects.reservationPreempted("session", key),
  reservationReleased: (key: string) => subjects.reservationReleased("session", key),
};

it.each(Object.entries(builders))("%s lets a key in as one token or not at all", (_name, build) => {
  const tokens = build("a").split(".").length;
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.constantFrom("*", ">", "a.b", "a b", "", "\n", "$SYS")), (key) => {
      let subject;
      try {
        subject = build(key);
      } catch {
        return;
      }
      expect(subject.split(".")).toHaveLength(tokens);
      expect(subject).not.toMatch(/[*>\s]/);
    }),
  );
});

it("binds every event and command to exactly one stream", () => {
  const examples = [
    subjects.reservationGranted("session", "a"),
    subjects.reservationPreempted("session", "a"),
    subjects.reservationReleased("session", "a"),
    subjects.sessionEventRecorded("a"),
    subjects.orderLease("a", "1-1"),
    subjects.leaseAnswered("a"),
    subjects.leaseAudited("a"),
    subjects.changeAudited("sessions", "0a1b", "1-1"),
    subjects.changeRefused("sessions", "0a1b"),
    subjects.dead("session"),
  ];
  const matches = (filter: string, subject: string): boolean => {
    const pattern = filter.replaceAll(".", "\\.").replaceAll("*", "[^.]+").replace(">", ".+");
    return new RegExp(`^${pattern}$`).test(subject);
  };
  for (const subject of examples) {
    const bound = Object.values(streams).filter(({ subjects: filters }) =>
      filters.some((filter) => matches(filter, subject)),
    );
    expect(bound, subject).toHaveLength(1);
  }
});
