import { describeFault, type Fault } from "@muster/faults";
import { checkEnvName, checkLabelValue } from "@muster/names";
import { z } from "zod";
import { isSealed, MAX_SEALED_CHARACTERS, MAX_SECRET_CHARACTERS } from "./secret-fields.ts";

/** Largest disk: 1 PiB. */
const MAX_DISK_GIB = 1_048_576;
const MAX_TEXT_CHARACTERS = 4096;
const LEASE_ID = /^\d{1,20}-\d{1,20}$/;

/** A text that a check of libs/names has nothing against. */
function checked(check: (field: string, text: string) => Fault | undefined) {
  return z.string().superRefine((text, context) => {
    const fault = check("", text);
    if (fault === undefined) return;
    const message = fault.code === "invalid_request" ? fault.reason : describeFault(fault);
    context.addIssue({ code: "custom", message });
  });
}

/** Pools are values of labels. */
export const poolName = checked(checkLabelValue).min(1);
export const envName = checked(checkEnvName);
export const text = z.string().max(MAX_TEXT_CHARACTERS);
/** One that is sealed is longer than what is in it. */
export const secretText = z
  .string()
  .superRefine((secret, context) => {
    const max = isSealed(secret) ? MAX_SEALED_CHARACTERS : MAX_SECRET_CHARACTERS;
    if (secret.length > max) context.addIssue({ code: "custom", message: `at most ${max} characters are possible` });
  })
  .meta({ maxLength: MAX_SEALED_CHARACTERS });
/** A whole number of a unit, which what is said of a wrong one names, too. */
export function amount(unit: string, { min, max }: { readonly min: number; readonly max: number }): z.ZodInt {
  return z.int().min(min, `at least ${min} ${unit} is needed`).max(max, `at most ${max} ${unit} is possible`);
}

export const sizeGib = amount("GiB", { min: 1, max: MAX_DISK_GIB }).describe("GiB.");
export const diskType = z.enum(["ssd", "hdd"]);
export const port = z.int().min(1).max(65_535);
export const leaseId = z.string().regex(LEASE_ID, "the id of a lease is needed: <number>-<number>");

/** Of a user's network. Not a name in Kubernetes: that is made from it. */
export const networkName = z.string().min(1).max(63);
export const networkOfData = networkName.describe("The network of the same user that it is in.").optional();
