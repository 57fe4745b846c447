/* The softmax of one row through the C interface: prints "0.0321 0.0871 0.2369 0.6439", then what a
 * wrong call is told.
 *
 *   cc softmax.c $(pkg-config --cflags --libs tilewright) -o softmax
 */
#include <stdio.h>

#include "tilewright/c/operators.h"

int main(void) {
  float x[4] = {0, 1, 2, 3}, out[4];
  int64_t shape[2] = {1, 4};
  const tw_dtype f32 = {2, 32, 1};
  tw_tensor input = {x, {1, 0}, 2, f32, shape, NULL, 0};
  tw_tensor output = {out, {1, 0}, 2, f32, shape, NULL, 0};

  tw_context* context = NULL;
  if (tw_context_new(1, &context) != TW_OK || tw_softmax(context, &input, -1, &output) != TW_OK) {
    fprintf(stderr, "%s\n", tw_last_error());
    return 1;
  }
  printf("%.4f %.4f %.4f %.4f\n", out[0], out[1], out[2], out[3]);

  if (tw_softmax(context, &input, 5, &output) == TW_INVALID_ARGUMENT)
    printf("%s\n", tw_last_error());
  tw_context_free(context);
  return 0;
}
