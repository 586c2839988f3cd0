import { z } from "zod";
import { controllerName } from "../settings-parts.ts";

const id = (prefix: string) =>
  z.string().regex(new RegExp(`^${prefix}-[0-9a-f]+$`), `has to look like ${prefix}-0a1b2c3d`);
/** Maximum number of tags. EC2 refuses more, and tags that begin with aws: belong to EC2. */
const MAX_TAGS = 40;

/** The block of a provider of kind `ec2`. It contains no credentials: the SDK finds them as in every AWS program. */
export const ec2Settings = z.strictObject({
  kind: z.literal("ec2"),
  region: z.string().min(1),
  /** The value of a tag on instances; the scaler changes only instances with it. Each scaler and account need their own value. */
  controller: controllerName,
  subnets: z.array(id("subnet")).min(1),
  securityGroups: z.array(id("sg")).default([]),
  instanceProfile: z.string().min(1).optional(),
  /** The path of the template of the script that an instance runs at boot. */
  userDataFile: z.string().min(1),
  tags: z
    .record(z.string().regex(/^(?!aws:)/, "must not begin with aws:"), z.string())
    .refine((tags) => Object.keys(tags).length <= MAX_TAGS, `${MAX_TAGS} at most`)
    .default({}),
  /** The address of another service with the API of EC2. */
  endpoint: z.url().optional(),
});

export type Ec2Settings = z.infer<typeof ec2Settings>;
