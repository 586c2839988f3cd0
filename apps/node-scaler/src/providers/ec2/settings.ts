import { z } from "zod";
import { controllerName } from "../settings-parts.ts";

const id = (prefix: string) =>
  z.string().regex(new RegExp(`^${prefix}-[0-9a-f]+$`), `has to look like ${prefix}-0a1b2c3d`);
/** EC2 itself refuses more, and tags that begin with aws: are its own. */
const MAX_TAGS = 40;

/** The block of a provider of kind `ec2`. Credentials come from where every AWS program looks for them, and never stand here. */
export const ec2Settings = z.strictObject({
  kind: z.literal("ec2"),
  region: z.string().min(1),
  /** Instances carry it as a tag, and only those that do are touched. One value a scaler and account. */
  controller: controllerName,
  subnets: z.array(id("subnet")).min(1),
  securityGroups: z.array(id("sg")).default([]),
  instanceProfile: z.string().min(1).optional(),
  /** Path of the template of what an instance runs when it boots. */
  userDataFile: z.string().min(1),
  tags: z
    .record(z.string().regex(/^(?!aws:)/, "must not begin with aws:"), z.string())
    .refine((tags) => Object.keys(tags).length <= MAX_TAGS, `${MAX_TAGS} at most`)
    .default({}),
  /** For another service that speaks EC2. */
  endpoint: z.url().optional(),
});

export type Ec2Settings = z.infer<typeof ec2Settings>;
