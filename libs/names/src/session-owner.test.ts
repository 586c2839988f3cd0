import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canBeOwner } from "./batch-job-owner.ts";
import { checkDnsLabel } from "./check-names.ts";
import { canOccupy, PART_OWNER_CHARACTERS, PART_SEPARATOR } from "./owners.ts";
import { buildSessionElsewhereId, isSessionElsewhere, isSessionIn, SESSION } from "./session-owner.ts";

const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
const session = fc.record({ namespace: label, name: label });
const owner = (of: Parameters<typeof buildSessionElsewhereId>[0]) => ({
  kind: SESSION,
  id: buildSessionElsewhereId(of),
});

describe("the owner id of a session in another namespace", () => {
  it("shows namespace and name", () => {
    expect(buildSessionElsewhereId({ namespace: "team-a", name: "bench" })).toMatch(/^team-a-bench-[0-9a-f]{50}$/);
  });

  it("is longer than the longest name of a session, whose pods are named after it and a component", () => {
    const name = "s".repeat(61);
    expect(checkDnsLabel("pod", `${name}-d`)).toBeUndefined();
    expect(checkDnsLabel("pod", `${name}s-d`)).toBeDefined();
    expect([name, `${name}s`].map((id) => isSessionElsewhere({ kind: SESSION, id }))).toEqual([false, false]);
  });

  it("is a DNS label without a separator of parts", () => {
    fc.assert(
      fc.property(session, (of) => {
        const { id } = owner(of);
        expect(checkDnsLabel("id", id)).toBeUndefined();
        expect(id).not.toContain(PART_SEPARATOR);
        expect(isSessionElsewhere({ kind: SESSION, id })).toBe(true);
        expect(isSessionElsewhere({ kind: "job", id })).toBe(false);
      }),
    );
  });

  it("differs for another namespace or name, also in the part that ids of its machines contain", () => {
    const part = (of: Parameters<typeof owner>[0]): string => owner(of).id.slice(0, PART_OWNER_CHARACTERS);
    fc.assert(
      fc.property(session, session, (one, other) => {
        const isSame = one.namespace === other.namespace && one.name === other.name;
        expect(part(one) === part(other)).toBe(isSame);
      }),
    );
  });

  it("shows the namespace that its pods are in, and no other", () => {
    fc.assert(
      fc.property(session, label, (of, namespace) => {
        const isSame = namespace === of.namespace;
        const pod = { namespace, uid: "p", controller: undefined };
        expect(isSessionIn(owner(of), of.namespace)).toBe(true);
        expect(isSessionIn(owner(of), namespace)).toBe(isSame);
        expect(canBeOwner(owner(of), pod)).toBe(isSame);
      }),
    );
  });

  it("keeps namespaces apart where text and hyphen could be exchanged", () => {
    const [one, other] = [owner({ namespace: "a", name: "b-c" }), owner({ namespace: "a-b", name: "c" })];
    expect(one.id).not.toBe(other.id);
    const part = { kind: "session-part", id: `${one.id.slice(0, PART_OWNER_CHARACTERS)}${PART_SEPARATOR}0a1b2c3d-0` };
    expect([canOccupy(one, part), canOccupy(other, part)]).toEqual([true, false]);
  });
});
