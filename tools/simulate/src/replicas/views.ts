import { openView, type Bucket, type Codec, type View } from "@muster/store";
import { makeSimBucket, type BucketWorld } from "../sim-bucket.ts";
import type { World } from "../world.ts";

/** Opens a bucket of the world, and a view of it for the calling process. */
export async function openBucketView<Value, Input = Value>(
  world: World,
  bucketWorld: BucketWorld,
  codec: Codec<Value, Input>,
  gone: AbortSignal,
  filter?: string,
): Promise<{ readonly bucket: Bucket<Value, Input>; readonly view: View<Value> }> {
  const bucket = makeSimBucket(bucketWorld, codec, world);
  return { bucket, view: await openView(bucket, { signal: gone, ...(filter === undefined ? {} : { filter }) }) };
}
