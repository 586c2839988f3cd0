import { describeFault, type Fault } from "@muster/faults";
import { checkEnvName, checkLabelValue } from "@muster/names";
import { z } from "zod";
import { isSealed, SEALED_CHARACTERS_MAX, SECRET_CHARACTERS_MAX } from "./secret-fields.ts";

/** Largest disk: 1 PiB. */
const DISK_GIB_MAX = 1_048_576;
const TEXT_CHARACTERS_MAX = 4096;
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
export const text = z.string().max(TEXT_CHARACTERS_MAX);
/** One that is sealed is longer than what is in it. */
export const secretText = z
  .string()
  .superRefine((secret, context) => {
    const most = isSealed(secret) ? SEALED_CHARACTERS_MAX : SECRET_CHARACTERS_MAX;
    if (secret.length > most) context.addIssue({ code: "custom", message: `at most ${most} characters are possible` });
  })
  .meta({ maxLength: SEALED_CHARACTERS_MAX });
/** A whole number of a unit, which what is said of a wrong one names, too. */
export function amount(unit: string, { least, most }: { readonly least: number; readonly most: number }): z.ZodInt {
  return z.int().min(least, `at least ${least} ${unit} is needed`).max(most, `at most ${most} ${unit} is possible`);
}

export const sizeGib = amount("GiB", { least: 1, most: DISK_GIB_MAX }).describe("GiB.");
export const diskType = z.enum(["ssd", "hdd"]);
export const port = z.int().min(1).max(65_535);
export const leaseId = z.string().regex(LEASE_ID, "the id of a lease is needed: <number>-<number>");

/** Of a user's network. Not a name in Kubernetes: that is made from it. */
export const networkName = z.string().min(1).max(63);
export const networkOfData = networkName.describe("The network of the same user that it is in.").optional();
