import { checkDnsLabel } from "@muster/names";
import { expect, it } from "vitest";
import { makeProvisioning } from "../../test/samples.ts";
import {
  getReplacementPrefix,
  buildReplacementId,
  buildReplacementPrefix,
  getReplacementSession,
} from "./replacement-owner.ts";

const uid = "1a2b3c4d-0000-4000-8000-000000000000";

it.each(["bench", "a--b", "s", `${"x".repeat(46)}-y`, "z".repeat(61)])(
  "the replacement owner of session %s has a unique name that the ledger accepts",
  (name) => {
    const session = { ...makeProvisioning([]), name, uid };
    const id = buildReplacementId(session, "server-0");
    expect(checkDnsLabel("owner.id", id)).toBeUndefined();
    expect(id).not.toBe(buildReplacementId(session, "driver"));
    expect(getReplacementPrefix(id)).toBe(buildReplacementPrefix(session));
    expect(getReplacementSession(id)).toBe(name.slice(0, 47));
    expect(buildReplacementPrefix({ ...session, uid: "another" })).not.toBe(buildReplacementPrefix(session));
  },
);
