// version.h - the version of this build.
#ifndef SL_BASE_VERSION_H
#define SL_BASE_VERSION_H

#define SL_VERSION "0.2.0"

#endif
